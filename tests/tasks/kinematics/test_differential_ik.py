"""Inverse kinematics reaches poses within the joints' limits and speeds."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from robo_rl.config.registry import load
from robo_rl_tasks.kinematics.differential_ik import DifferentialIk

DT_S, SPEED = 0.05, 0.5


@pytest.fixture(scope="module")
def robot():
    return load("robots", "panda")


@pytest.fixture
def tracker(robot):
    return DifferentialIk(robot, 2, DT_S, speed=SPEED, orientation_cost=0.3)


def _follow(tracker, pos, steps=60):
    quat = torch.tensor([[0.0, 1.0, 0.0, 0.0]]).expand(len(pos), 4)
    return torch.stack([tracker.step(pos, quat) for _ in range(steps)])


def test_each_env_reaches_its_own_pose(tracker, robot):
    targets = torch.tensor([[0.5, 0.1, 0.1], [0.4, -0.2, 0.3]])
    joints = _follow(tracker, targets)[-1]
    model = robot.spec().compile()
    data = mujoco.MjData(model)
    for joint_pos, target in zip(joints, targets, strict=True):
        data.qpos[:7] = joint_pos
        mujoco.mj_forward(model, data)
        assert data.sensor("ee_pos").data == pytest.approx(target.numpy(), abs=2e-3)
        assert abs(data.sensor("ee_quat").data[1]) == pytest.approx(1, abs=1e-3)


def test_keeps_to_its_share_of_the_joints_speeds(tracker, robot):
    path = _follow(tracker, torch.tensor([[0.6, 0.3, 0.1], [0.3, -0.3, 0.6]]))
    limit = torch.tensor([joint.max_velocity for joint in robot.actuated_joints[:7]]) * SPEED * DT_S
    step = path.diff(dim=0).abs()
    assert (step <= limit + 1e-5).all()
    assert (step > 0.9 * limit).any()


def test_stays_within_the_joints_ranges_out_of_reach(tracker, robot):
    path = _follow(tracker, torch.tensor([[2.0, 0.0, 0.1], [-1.0, 1.0, -1.0]]))
    low, high = np.array([(joint.low, joint.high) for joint in robot.actuated_joints[:7]]).T
    assert (path.numpy() >= low - 1e-4).all()
    assert (path.numpy() <= high + 1e-4).all()


def test_starts_from_a_joint_beyond_its_stop(tracker, robot):
    joints = robot.actuated_joints[:7]
    high, home = (torch.tensor([getattr(j, name) for j in joints]) for name in ("high", "home"))
    tracker.start(torch.tensor([1]), high[None] + 0.01)
    (path,) = _follow(tracker, torch.tensor([[0.5, 0.0, 0.3]] * 2), steps=1)
    limit = torch.tensor([joint.max_velocity for joint in joints]) * SPEED * DT_S + 1e-5
    assert ((path[0] - home).abs() <= limit).all()
    assert ((path[1] - high).abs() <= limit).all()
    assert (path[1] <= high + 1e-4).all()
