"""lift_cube: conformance, rewards worked by hand, and its demonstrator, on two robots."""

from __future__ import annotations

from typing import Annotated

import pytest
import torch

from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel, compose, validate
from robo_rl.testing.task import check_task, demonstrate
from robo_rl_tasks.lift_cube import LiftCube, LiftCubeConfig


class _Root(ConfigModel):
    task: Annotated[Component, component("tasks")]


def _from_config(name: str) -> LiftCube:
    return validate(compose(f"task/{name}"), _Root).task.build()


@pytest.fixture
def view_at(make_view):
    """Views of the cube straight below a hand that is 0.1 m above the table."""

    def view(height, gripper=0.04):
        sensors = {
            "ee_pos": [0.5, 0.0, 0.1],
            "cube_pos": [0.5, 0.0, height],
            "panda_finger_joint1_pos": [gripper],
        }
        return make_view({name: torch.tensor([value]) for name, value in sensors.items()})

    return view


def test_conforms():
    check_task(lambda: LiftCube(LiftCubeConfig()))


def test_conforms_on_another_robot_by_config_alone():
    check_task(lambda: _from_config("lift_cube_so101"), min_success=0.9)


@pytest.mark.parametrize(("name", "least"), [("lift_cube", 0.98), ("lift_cube_so101", 0.9)])
def test_expert_succeeds_without_noise(name, least):
    assert demonstrate(_from_config(name), 50, noise=0.0).float().mean() >= least


@pytest.mark.slow
def test_noise_makes_the_expert_fail():
    task = LiftCube(LiftCubeConfig())
    some, most = (demonstrate(task, 40, noise=noise).float().mean() for noise in (0.5, 1.0))
    assert 0.5 < some < 0.98
    assert most < 0.5


def test_expert_keeps_to_joint_speeds():
    task = LiftCube(LiftCubeConfig())
    limit = torch.tensor([joint.max_velocity for joint in task.robot.actuated_joints][:-1])
    acts = _expert_acts(task, 30)
    assert ((acts.diff(dim=0)[..., :-1].abs() / task.dt_s) <= limit + 1e-3).all()


def _expert_acts(task, steps):
    from robo_rl.env.mujoco.sim_env import SimEnv

    env = SimEnv(SimEnv.Config(), task, 4)
    expert = task.expert(4, torch.Generator().manual_seed(0), 0.0)
    env.reset(0)
    acts = []
    for _ in range(steps):
        acts.append(expert.act(env.view).act)
        env.step(acts[-1])
    env.close()
    return torch.stack(acts)


@pytest.mark.parametrize(("height", "success"), [(0.02, False), (0.099, False), (0.1001, True)])
def test_success_is_the_height_above_rest(view_at, height, success):
    task = LiftCube(LiftCubeConfig(lift_height_m=0.08, cube_half_m=0.02))
    assert task.success(view_at(height)).tolist() == [success]


def test_dense_reward_by_hand(view_at):
    task = LiftCube(LiftCubeConfig())
    rew, parts = task.reward(view_at(0.06, gripper=0.03), torch.zeros(1, 8))
    # 0.04 m apart: near = 1 - tanh(0.4) = 0.620051. The fingers went 1/2 of the way from 0.04 to
    # the cube's 0.02. The cube is 0.04 of 0.08 m up.
    assert parts["reach"].item() == pytest.approx(0.620051, abs=1e-5)
    assert parts["grasp"].item() == pytest.approx(0.310026, abs=1e-5)
    assert parts["lift"].item() == pytest.approx(0.5)
    expected = -(0.02 * 0.379949 + 0.03 * 0.689974 + 0.05 * 0.5)
    assert rew.item() == pytest.approx(expected, abs=1e-5)


def test_sparse_reward_is_success(view_at):
    task = LiftCube(LiftCubeConfig(reward="sparse"))
    assert task.reward(view_at(0.05), torch.zeros(1, 8))[0].item() == 0
    assert task.reward(view_at(0.11), torch.zeros(1, 8))[0].item() == 1


@pytest.mark.parametrize("ends", [True, False])
def test_ends_with_success_if_configured(view_at, ends):
    task = LiftCube(LiftCubeConfig(terminate_on_success=ends))
    assert task.terminated(view_at(0.11)).tolist() == [ends]
