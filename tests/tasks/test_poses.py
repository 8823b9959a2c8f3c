"""Planar poses, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl_tasks import poses


def test_wrap_angle_keeps_the_angle_modulo_its_period():
    wrapped = poses.wrap_angle(torch.tensor([0.9, -0.9, 0.2]), math.pi / 2)
    expected = [0.9 - math.pi / 2, -0.9 + math.pi / 2, 0.2]
    assert wrapped.tolist() == pytest.approx(expected, abs=1e-6)


def test_rotate_planar_by_a_quarter_turn():
    turned = poses.rotate_planar(torch.tensor([math.pi / 2]), torch.tensor([[1.0, 2.0]]))
    assert turned[0].tolist() == pytest.approx([-2.0, 1.0], abs=1e-6)


AWAY = {
    "far enough": ([0.5, 0.9], [0.5, 0.5], 0.3, [0.5, 0.9]),
    "along its direction": ([0.5, 0.6], [0.5, 0.5], 0.3, [0.5, 0.8]),
    "without a direction": ([0.4, 0.4], [0.4, 0.4], 0.5, [0.4 + 0.5**1.5, 0.4 + 0.5**1.5]),
    # Its direction leaves the box. Towards (1, 1): (0.9 t - 0.1)² + (0.9 t)² = 0.5² at t = 4/9.
    "towards the far corner": ([0.1, 0.1], [0.2, 0.1], 0.5, [0.5, 0.5]),
    "in a box that is too small": ([0.6, 0.5], [0.5, 0.5], 0.8, [0.0, 0.0]),
}


@pytest.mark.parametrize("case", AWAY)
def test_away_from_by_hand(case):
    point, centre, distance, expected = AWAY[case]
    box = torch.zeros(2), torch.ones(2)
    moved = poses.away_from(torch.tensor([point]), torch.tensor([centre]), distance, *box)[0]
    assert moved.tolist() == pytest.approx(expected, abs=1e-6)
