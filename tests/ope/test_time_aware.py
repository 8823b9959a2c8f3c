"""What episodes came to, worked by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from robo_rl.ope.rollouts import num_recorded_steps
from robo_rl.ope.time_aware import add_time_feature, returns_to_go


def test_returns_from_every_row_of_episodes_of_several_lengths():
    rew = torch.tensor([1.0, 2.0, 4.0, 3.0, 0.0, 8.0])
    last = torch.tensor([2, 2, 2, 3, 5, 5])
    found = returns_to_go(rew, last, 0.5)
    assert found.tolist() == [1.0 + 1.0 + 1.0, 2.0 + 2.0, 4.0, 3.0, 4.0, 8.0]


def test_the_last_reward_of_an_episode_that_ends_at_the_longest_length_counts():
    """Two episodes of 3 rows: the first terminates with a reward, the second is cut."""
    columns = {
        "obs.x": torch.zeros(6, 1, 1),
        "terminated": torch.tensor([False, False, True, False, False, False]),
        "decision": torch.tensor([True, True, True, True, True, False]),
        "next": torch.tensor([1, 2, 2, 4, 5, 5]),
    }
    found = add_time_feature(columns, torch.arange(3).repeat(2), 3)
    assert found["terminated"].tolist() == [False, False, True, False, True, False]


def test_recorded_steps_reach_the_limit_where_an_episode_terminates_there():
    decision = torch.tensor([True, True, True, True, True, False, True])
    episode = torch.tensor([0, 0, 0, 1, 1, 1, 2])
    case: Any = SimpleNamespace(
        rows={"decision": decision}, resample=SimpleNamespace(episode=episode), limit=3
    )
    assert num_recorded_steps(case) == 3
    decision[2] = False
    assert num_recorded_steps(case) == 2
