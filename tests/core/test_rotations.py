"""Rotations, by hand and by identities."""

from __future__ import annotations

import pytest
import torch

from robo_rl.core import rotations
from robo_rl_tasks import poses


@pytest.fixture
def quats(generator):
    quat = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    return quat / quat.norm(dim=-1, keepdim=True)


def test_a_turn_and_its_inverse_cancel(quats):
    unit = rotations.quat_mul(quats, rotations.quat_conj(quats))
    assert torch.allclose(unit, torch.tensor([1.0, 0, 0, 0], dtype=torch.float64).expand(50, 4))


def test_a_turn_survives_the_quaternion_and_the_matrix(generator):
    turn = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    turn = turn / turn.norm(dim=-1, keepdim=True) * torch.linspace(0, 3.1, 50).unsqueeze(-1)
    assert torch.allclose(
        rotations.quat_to_rotvec(rotations.rotvec_to_quat(turn)), turn, atol=1e-12
    )
    assert torch.allclose(
        rotations.matrix_to_rotvec(rotations.quat_to_matrix(rotations.rotvec_to_quat(turn))),
        turn,
        atol=1e-9,
    )


def test_the_matrix_turns_as_the_quaternion_does(quats):
    rot = rotations.quat_to_matrix(quats)
    assert torch.allclose(rot[..., :2].mT.flatten(-2), poses.quat_to_rot6d(quats))
    assert torch.allclose(rot @ rot.mT, torch.eye(3, dtype=torch.float64).expand(50, 3, 3))
    assert torch.allclose(torch.linalg.det(rot), torch.ones(50, dtype=torch.float64))


def test_turns_about_z_add_up():
    a, b = torch.tensor([0.3]), torch.tensor([0.5])
    both = rotations.quat_mul(poses.yaw_to_quat(a), poses.yaw_to_quat(b))
    assert torch.allclose(both, poses.yaw_to_quat(a + b))
