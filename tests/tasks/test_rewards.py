"""Rewards, by hand."""

from __future__ import annotations

import pytest
import torch

from robo_rl_tasks import rewards


def test_distance_of_a_3_4_5_triangle():
    assert rewards.distance(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).tolist() == [5.0]


def test_closeness_falls_from_one():
    close = rewards.closeness(torch.tensor([0.0, 0.1, 1e3]), 0.1)
    assert close.tolist() == pytest.approx([1.0, 0.238406, 0.0], abs=1e-5)


def test_progress_is_linear_and_clipped_in_both_directions():
    up = rewards.progress(torch.tensor([0.0, 1.0, 2.5, 3.0, 4.0]), 1.0, 3.0)
    assert up.tolist() == [0.0, 0.0, 0.75, 1.0, 1.0]
    down = rewards.progress(torch.tensor([4.0, 3.0, 2.0, 1.0]), 3.0, 1.0)
    assert down.tolist() == [0.0, 0.0, 0.5, 1.0]


def test_closing_counts_only_around_the_object():
    near, opening = torch.tensor([1.0, 0.0, 0.5]), torch.tensor([0.02, 0.02, 0.03])
    assert rewards.grasp(near, opening, 0.04, 0.02).tolist() == pytest.approx([1.0, 0.0, 0.25])


def test_dense_reward_is_the_bonus_where_nothing_is_missing():
    parts = {"a": torch.tensor([1.0, 0.5]), "b": torch.tensor([1.0, 0.0])}
    bonus = torch.tensor([1.0, 0.0])
    assert rewards.shaped(parts, {"a": 0.1, "b": 0.2}, bonus).tolist() == pytest.approx(
        [1.0, -0.25]
    )
