"""Changes of the last command as actions: where they lead, how far, and from where they count."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
import torch

from robo_rl.core.rotations import quat_mul, quat_to_rotvec, rotvec_to_quat
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.testing.task import check_task
from robo_rl_tasks.lift_cube import LiftCube, LiftCubeConfig
from robo_rl_tasks.reach import Reach, ReachConfig

SPACES = ["joints_delta", "pose_delta"]


def reach(actions):
    return Reach(ReachConfig(actions=actions, terminate_on_success=False))


def started(task, num_envs=4):
    env = SimEnv(SimEnv.Config(), task, num_envs)
    env.reset(0)
    return env


def still(task, num_envs=4):
    """No change of the arm, and the gripper open."""
    act = torch.zeros(num_envs, task.act_spec.size)
    delta = torch.tensor(task.act_spec.is_delta)
    return torch.where(delta, act, torch.tensor(task.act_spec.high))


@pytest.mark.parametrize("actions", SPACES)
def test_conforms(actions):
    check_task(lambda: LiftCube(LiftCubeConfig(actions=actions)), min_success=0.9)


@pytest.mark.parametrize(("actions", "moved"), [("joints_delta", 7), ("pose_delta", 6)])
def test_the_arm_changes_by_its_speed_at_most_and_the_gripper_has_a_target(actions, moved):
    spec = LiftCube(LiftCubeConfig(actions=actions)).act_spec
    absolute = LiftCube(LiftCubeConfig(actions=actions)).absolute().act_spec
    assert spec.is_delta == (True,) * moved + (False,)
    assert (spec.low[-1], spec.high[-1]) == (absolute.low[-1], absolute.high[-1])
    assert spec.high[0] == -spec.low[0] == pytest.approx({7: 2.175, 6: 0.98}[moved] / 20)
    assert reach(actions).act_spec.reference == "delta"
    assert absolute.reference == "absolute"


@pytest.mark.parametrize("actions", SPACES)
def test_without_a_change_an_arm_stays_where_its_episode_begins(actions):
    task = LiftCube(LiftCubeConfig(actions=actions))
    with closing(started(task)) as env:
        before = env.view.sensor("ee_pos").clone()
        for _ in range(20):
            env.step(still(task))
        assert (env.view.sensor("ee_pos") - before).abs().max() < 3e-3


def test_a_chunk_of_joint_changes_is_one_open_loop_call_and_equals_the_step_loop(generator):
    task = LiftCube(LiftCubeConfig(actions="joints_delta"))
    assert task.open_loop
    high = torch.tensor(task.act_spec.high)
    act = high * (2 * torch.rand(4, 8, 8, generator=generator) - 1)
    with closing(started(task)) as chunk, closing(started(task)) as loop:
        chunk.rollout(act)
        for act_t in act.unbind(1):
            loop.step(act_t)
        assert torch.equal(chunk.view.ctrl, loop.view.ctrl)


def test_changes_add_up_to_the_joint_limits_and_no_further():
    task = reach("joints_delta")
    high = torch.tensor(task.act_spec.high).expand(4, 7)
    view = started(task).view
    for _ in range(80):
        view = replace(view, ctrl=task.control(view, high))
    assert torch.equal(view.ctrl[:, :7], torch.tensor([j.high for j in task.arm]).expand(4, 7))


@pytest.mark.parametrize("actions", SPACES)
def test_the_action_for_a_target_leads_to_it(actions):
    task = reach(actions)
    with closing(started(task)) as env:
        change = 0.5 * torch.tensor(task.act_spec.high).expand(4, -1)
        wanted = task._targets(env.view, change)
        torch.testing.assert_close(
            task.action(env.view, wanted, torch.zeros(4)), change, atol=1e-5, rtol=0
        )


def test_a_pose_does_not_run_away_from_an_arm_on_the_table():
    """Two seconds down against the table, then up again at once."""
    task = reach("pose_delta")
    velocity = torch.tensor([joint.max_velocity for joint in task.arm])
    gains = task.robot.control
    lag = torch.tensor([kd / kp for kd, kp in zip(gains.kd, gains.kp, strict=True)])[:7]
    down = still(task) + torch.tensor([0.0, 0, -0.03, 0, 0, 0])
    with closing(started(task)) as env:
        for _ in range(40):
            before = env.view.qpos[:, :7].clone()
            env.step(down)
            reached = (env.view.ctrl[:, :7] - before).abs()
            assert (reached <= velocity * (task.dt_s + lag) + 1e-6).all()
        low = env.view.sensor("ee_pos")[:, 2].clone()
        for _ in range(6):
            env.step(-down)
        assert (env.view.sensor("ee_pos")[:, 2] > low + 0.03).all()


def test_a_rotation_is_about_the_axes_of_the_base_wherever_the_hand_points():
    task = reach("pose_delta")
    tilt, turn = torch.tensor([0.3, 0.2, 0.4]), torch.tensor([0.0, 0.0, 0.05])
    last = torch.cat([torch.tensor([0.5, 0.0, 0.3]), tilt])[None]
    change = torch.cat([torch.zeros(3), turn])[None]
    assert task._deltas is not None
    moved = task._deltas.moved(last, change)[0, 3:]
    expected = quat_to_rotvec(quat_mul(rotvec_to_quat(turn), rotvec_to_quat(tilt)))
    torch.testing.assert_close(moved, expected)
    torch.testing.assert_close(task._deltas.change(last, task._deltas.moved(last, change)), change)
