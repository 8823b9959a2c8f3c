"""The clock ends episodes at their length, and tells a world that lost a physics step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.episode_clock import EpisodeClock

CPU = torch.device("cpu")


def clock(timestep_s: float = 0.005) -> EpisodeClock:
    task: Any = SimpleNamespace(dt_s=0.02, episode_s=0.06)
    return EpisodeClock(task, timestep_s, 2, CPU)


def test_an_env_is_at_its_limit_after_the_steps_since_its_own_start():
    time = clock()
    time.advance()
    time.start(torch.tensor([1]))
    time.advance()
    time.advance()
    assert time.max_steps == 3
    assert time.at_limit.tolist() == [True, False]


def test_a_world_that_lacks_one_physics_step_does_not_agree():
    time = clock()
    time.advance()
    time.advance()
    assert time.agrees(torch.tensor([0.04, 0.035])).tolist() == [True, False]


@pytest.mark.parametrize("timestep_s", [0.013, 0.03])
def test_the_control_period_is_a_multiple_of_the_physics_step(timestep_s: float):
    with pytest.raises(ConfigError, match=f"a multiple of {timestep_s} s, found 0.02 s"):
        clock(timestep_s)
