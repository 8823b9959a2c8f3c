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
