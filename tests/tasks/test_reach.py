"""reach: conformance, rewards worked by hand, and its demonstrator."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from robo_rl.api.task import CommandsHand
from robo_rl.config.component import component
from robo_rl.config.registry import load
from robo_rl.testing.task import check_task, demonstrate
from robo_rl_tasks.kinematics.joints import arm_joints
from robo_rl_tasks.reach import Reach, ReachConfig


@pytest.fixture
def view_at(make_view):
    """Views at a distance from the goal."""
    ee_pos = {"ee_pos": torch.tensor([[0.5, 0.0, 0.2]])}
    return lambda dist: make_view(ee_pos, {"goal_pos": torch.tensor([[0.5, dist, 0.2]])})


def test_conforms():
    check_task(lambda: Reach(ReachConfig()), min_success=0.98, episodes=32)


def test_noise_makes_the_expert_fail():
    task = Reach(ReachConfig())
    assert demonstrate(task, 64, noise=1.0).float().mean() < 0.6


def test_acts_on_the_arm_alone(view_at):
    task = Reach(ReachConfig())
    assert task.act_spec.names == load("robots", "panda").actuator_names[:-1]
    ctrl = task.control(view_at(0.1), torch.ones(1, 7))
    assert ctrl.tolist() == [[1.0] * 7 + [0.0]]


def test_reward_by_hand(view_at):
    # At the scale of 0.1 m the closeness is 1 - tanh(1) = 0.238406.
    rew, parts = Reach(ReachConfig()).reward(view_at(0.1), torch.zeros(1, 7))
    assert parts["reach"].item() == pytest.approx(0.238406, abs=1e-5)
    assert rew.item() == pytest.approx(-0.1 * 0.761594, abs=1e-5)


@pytest.mark.parametrize(("distance", "success"), [(0.0199, True), (0.0201, False)])
def test_success_is_a_distance(view_at, distance, success):
    task = Reach(ReachConfig(success_m=0.02))
    assert task.success(view_at(distance)).tolist() == [success]
    assert task.reward(view_at(distance), torch.zeros(1, 7))[0].item() > 0 or not success


@pytest.mark.parametrize("success_m", [0.02, 0.1, 0.25])
def test_no_start_is_a_success(success_m):
    """MuJoCo's own hand, at all starts; goals that were far enough are as drawn, all in the box."""
    task = Reach(ReachConfig(success_m=success_m))
    start = task.reset(8000, torch.Generator().manual_seed(0))
    drawn = Reach(ReachConfig(success_m=1e-9)).reset(8000, torch.Generator().manual_seed(0))
    assert torch.equal(start.qpos, drawn.qpos)
    hand, goal, first = hands(task, start.qpos), start.goal["goal_pos"], drawn.goal["goal_pos"]
    near = (first - hand).norm(dim=1) < 1.0999 * success_m
    assert near.any()
    assert (goal - hand).norm(dim=1).min() > 1.0999 * success_m
    far = (first - hand).norm(dim=1) > 1.1001 * success_m
    assert torch.equal(goal[far], first[far])
    low, high = torch.tensor(task.cfg.goal_low), torch.tensor(task.cfg.goal_high)
    assert ((goal >= low - 1e-6) & (goal <= high + 1e-6)).all()


def hands(task, qpos):
    """The end effector in MuJoCo, (n, 3)."""
    model = task.robot.spec().compile()
    data, found = mujoco.MjData(model), []
    for row in qpos.double().numpy():
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        found.append(data.site(task.robot.frames.ee_site).xpos.copy())
    return torch.tensor(np.array(found)).float()


def test_says_where_an_action_sends_the_hand():
    """Of joint targets, with and without a gripper, MuJoCo's site; of a pose, its position."""
    robot = load("robots", "panda")
    model = robot.spec().compile()
    data = mujoco.MjData(model)  # pyright: ignore[reportAttributeAccessIssue]
    data.qpos[:] = robot.home_qpos
    mujoco.mj_kinematics(model, data)  # pyright: ignore[reportAttributeAccessIssue]
    here = torch.tensor(data.site(robot.frames.ee_site).xpos).float()
    arm = torch.tensor([joint.home for joint in arm_joints(robot)])
    tasks = {
        "reach": {},
        "lift_cube": {},
        "lift_cube_pose": {"name": "lift_cube", "actions": "pose"},
    }
    acts = [arm, torch.cat([arm, arm[:1]]), torch.cat([here, torch.zeros(4)])]
    for (name, fields), act in zip(tasks.items(), acts, strict=True):
        task = component("tasks").make({"name": name, **fields}).build()
        assert isinstance(task, CommandsHand)
        torch.testing.assert_close(task.commanded_hand_pos(act[None])[0], here)
