"""Poses as actions: the arm gets there, no faster than it can, and a task is the same task."""

from __future__ import annotations

from contextlib import closing

import pytest
import torch

from robo_rl.config.component import component
from robo_rl.config.registry import load
from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.testing.task import check_task, demonstrate
from robo_rl_tasks.lift_cube import LiftCube, LiftCubeConfig
from robo_rl_tasks.push_t.task import PushT, PushTConfig
from robo_rl_tasks.reach import Reach, ReachConfig

TASKS = {
    "reach": lambda: Reach(ReachConfig(actions="pose")),
    "lift_cube": lambda: LiftCube(LiftCubeConfig(actions="pose")),
    "push_t": lambda: PushT(PushTConfig(actions="pose")),
}


@pytest.mark.parametrize("name", ["reach", "lift_cube"])
def test_conforms(name: str):
    check_task(TASKS[name], min_success=0.9, episodes=16)


def test_noise_makes_the_expert_fail():
    assert demonstrate(TASKS["reach"](), 64, noise=1.0).float().mean() < 0.6


def test_actions_are_the_hand_and_what_else_the_task_moves():
    robot = load("robots", "panda")
    assert TASKS["lift_cube"]().act_spec.names == (*robot.end_effector.names, "gripper")
    assert TASKS["push_t"]().act_spec.names == robot.end_effector.names
    assert TASKS["lift_cube"]().act_spec.unit == "m,m,m,rad,rad,rad,m"
    assert not TASKS["reach"]().open_loop


def test_poses_are_reached_to_a_millimetre(generator):
    task = Reach(ReachConfig(actions="pose", terminate_on_success=False))
    low, high = (torch.tensor([0.4, -0.2, 0.2]), torch.tensor([0.6, 0.2, 0.4]))
    assert task.hand is not None
    with closing(SimEnv(SimEnv.Config(), task, 32)) as env:
        env.reset(0)
        pos = low + (high - low) * torch.rand(32, 3, generator=generator)
        turn = 0.8 * torch.rand(32, 3, generator=generator) - 0.4
        for _ in range(env.max_episode_steps - 1):
            env.step(torch.cat([pos, turn], -1))
        found = task.hand.pose(env.view.sensor("ee_pos"), env.view.sensor("ee_quat")).float()
    assert (found[:, :3] - pos).abs().max() < 1e-3
    assert (found[:, 3:] - turn).abs().max() < 2e-3


def test_targets_stay_within_what_the_joints_can_do():
    """An absurd pose asks for no more than a period at full speed and what the servo lags."""
    task = TASKS["reach"]()
    robot = task.robot
    qpos = torch.tensor(robot.home_qpos).float().expand(4, -1)
    far = torch.tensor(task.act_spec.high).expand(4, 6)
    arm = task.hand.targets(qpos, far)
    velocity = torch.tensor([joint.max_velocity for joint in task.arm])
    gains = robot.control
    lag = torch.tensor([kd / kp for kd, kp in zip(gains.kd, gains.kp, strict=True)])[:7]
    assert ((arm - qpos[:, :7]).abs() <= velocity * (task.dt_s + lag) + 1e-6).all()


def test_a_robot_without_a_hand_is_refused():
    cfg = ReachConfig(actions="pose", robot=component("robots").make("so101"))
    with pytest.raises(ConfigError, match="'so101' has no hand"):
        Reach(cfg)
