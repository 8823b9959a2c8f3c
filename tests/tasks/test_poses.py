"""Rotations, by hand and by identities."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl_tasks import poses


@pytest.fixture
def quats(generator):
    quat = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    return quat / quat.norm(dim=-1, keepdim=True)


def test_yaw_survives_the_quaternion():
    yaw = torch.linspace(-3.1, 3.1, 9, dtype=torch.float64)
    assert torch.allclose(poses.quat_to_yaw(poses.yaw_to_quat(yaw)), yaw)


def test_rot6d_of_a_quarter_turn():
    # x goes to y, y goes to -x.
    rot6d = poses.quat_to_rot6d(poses.yaw_to_quat(torch.tensor([math.pi / 2])))
    assert rot6d[0].tolist() == pytest.approx([0, 1, 0, -1, 0, 0], abs=1e-6)


def test_rot6d_is_the_same_for_both_signs_and_orthonormal(quats):
    rot6d = poses.quat_to_rot6d(quats)
    assert torch.allclose(rot6d, poses.quat_to_rot6d(-quats))
    x, y = rot6d[:, :3], rot6d[:, 3:]
    assert torch.allclose(x.norm(dim=-1), torch.ones(50, dtype=torch.float64))
    assert torch.allclose((x * y).sum(-1), torch.zeros(50, dtype=torch.float64), atol=1e-12)


def test_wrap_angle_keeps_the_angle_modulo_its_period():
    wrapped = poses.wrap_angle(torch.tensor([0.9, -0.9, 0.2]), math.pi / 2)
    expected = [0.9 - math.pi / 2, -0.9 + math.pi / 2, 0.2]
    assert wrapped.tolist() == pytest.approx(expected, abs=1e-6)


def test_rotate_planar_by_a_quarter_turn():
    turned = poses.rotate_planar(torch.tensor([math.pi / 2]), torch.tensor([[1.0, 2.0]]))
    assert turned[0].tolist() == pytest.approx([-2.0, 1.0], abs=1e-6)
