"""The jerk of executed actions, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl.core.spec import ActSpec
from robo_rl.train.rl.action_jerk import Jerk

FREE = ActSpec(shape=(1,), rate_hz=10.0)
LIMITED = ActSpec(shape=(1,), rate_hz=10.0, low=(-1.0,), high=(1.0,))


def feed(jerk: Jerk, actions: list[float], *, over: bool = False, num_exec: int | None = None):
    act = torch.tensor(actions).view(1, -1, 1)
    executed = len(actions) if num_exec is None else num_exec
    jerk.update(act, torch.tensor([executed]), torch.tensor([over]))


def test_it_is_the_third_difference_over_dt_cubed():
    # 0, 1, 8, 27: a cube's third difference is 3! = 6; 0.1 s apart: 6/0.001
    jerk = Jerk(FREE, 0.1, 1)
    feed(jerk, [0.0, 1.0, 8.0, 27.0])
    assert jerk.pop_mean() == pytest.approx(6000.0)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_chunks_do_not_show(size):
    values = [float(t**3) for t in range(12)]
    jerk = Jerk(FREE, 1.0, 1)
    for start in range(0, 12, size):
        feed(jerk, values[start : start + size])
    assert jerk.count == 9
    assert jerk.pop_mean() == pytest.approx(6.0)


def test_episodes_do_not_touch():
    jerk = Jerk(FREE, 1.0, 1)
    feed(jerk, [0.0, 1.0, 8.0, 27.0, 999.0], over=True, num_exec=4)
    feed(jerk, [5.0, 5.0, 5.0])
    assert jerk.pop_mean() == pytest.approx(6.0)
    feed(jerk, [5.0])
    assert jerk.pop_mean() == 0.0


def test_actions_count_as_the_env_holds_them_to_their_limits():
    jerk = Jerk(LIMITED, 1.0, 1)
    feed(jerk, [5.0, 3.0, 9.0, 2.0])
    assert jerk.pop_mean() == 0.0


def test_without_four_actions_in_a_row_there_is_none():
    jerk = Jerk(FREE, 1.0, 1)
    feed(jerk, [0.0, 1.0, 8.0])
    assert math.isnan(jerk.pop_mean())


def test_it_goes_on_from_its_state():
    jerk, again = Jerk(FREE, 1.0, 1), Jerk(FREE, 1.0, 1)
    feed(jerk, [0.0, 1.0, 8.0])
    again.load_state_dict(jerk.state_dict())
    feed(again, [27.0])
    assert again.pop_mean() == pytest.approx(6.0)
