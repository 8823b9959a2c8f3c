"""Corrections of a step's rows: what did not take place is neutral."""

from __future__ import annotations

import torch

from robo_rl.api.env import Step
from robo_rl.env.transitions import without_invalid


def test_a_row_without_a_transition_keeps_the_task_of_its_episode():
    """Evaluation books an episode by it, and a lost world's episode has its task, too."""
    valid = torch.tensor([True, False])
    obs = {"pos": torch.tensor([[1.0], [2.0]])}
    metrics = {"task": torch.tensor([2.0, 3.0]), "success": torch.ones(2)}
    step = Step(obs, obs, torch.ones(2), ~valid, ~valid, valid, metrics)
    found = without_invalid(step, ~valid, {"pos": torch.zeros(2, 1)})
    assert found.metrics["task"].tolist() == [2.0, 3.0]
    assert found.metrics["success"].tolist() == [1.0, 0.0]
    assert found.metrics["nan_worlds"].tolist() == [0.0, 1.0]
    assert found.rew.tolist() == [1.0, 0.0]
    assert found.next_obs["pos"].tolist() == [[1.0], [0.0]]
    assert (found.terminated.tolist(), found.truncated.tolist()) == ([False, False], [False, True])
