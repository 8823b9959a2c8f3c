"""The model of pushing, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl_tasks.push_t.push_model import misalignment, poses_after_push, push_twist


def test_a_push_through_the_centre_only_shifts():
    twist = push_twist(torch.tensor([[0.0, -1.0]]), torch.tensor([[0.0, 1.0]]), 0.5)
    assert twist.tolist() == [[0.0, 1.0, 0.0]]


def test_the_pushed_point_moves_as_far_as_the_peg():
    point, normal = torch.tensor([[0.3, -0.2]]), torch.tensor([[0.0, 1.0]])
    twist = push_twist(point, normal, 0.5)
    # m = 0.3, m²/ρ² = 0.36: the centre moves by 1/1.36, the turn is 0.3/0.25/1.36.
    assert twist[0].tolist() == pytest.approx([0.0, 1 / 1.36, 1.2 / 1.36])
    at_point = twist[0, :2] + twist[0, 2] * torch.tensor([0.2, 0.3])
    assert (at_point @ normal[0]).item() == pytest.approx(1.0)


def test_pushed_integrates_a_constant_twist():
    # Forward at 1 while turning at 1: half a circle of radius 1 ends 2 to the left, looking back.
    twist, pose = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[0.5, 0.0, math.pi / 2]])
    after = poses_after_push(pose, twist, torch.tensor([0.0, math.pi]))
    assert after[0, 0, 0].tolist() == pytest.approx(pose[0].tolist())
    assert after[0, 0, 1].tolist() == pytest.approx([-1.5, 0.0, 1.5 * math.pi], abs=1e-6)


def test_misalignment_counts_turns_in_metres():
    pose, target = torch.tensor([0.03, 0.04, math.pi]), torch.tensor([0.0, 0.0, -math.pi + 0.1])
    assert misalignment(pose, target, 0.05).item() == pytest.approx(0.0025 + 0.005**2, abs=1e-6)
