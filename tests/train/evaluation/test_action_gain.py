"""Gains of labels and policies whose answer to a displacement is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robo_rl.config.registry import load
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.train.evaluation.action_gain import is_displaceable, label_gain, policy_gain


def reach(**expert: float):
    cls = load("tasks", "reach")
    return cls(cls.Config(expert=expert))


def make(task):
    return lambda num_envs: SimEnv(SimEnv.Config(), task, num_envs)


@pytest.mark.parametrize("feedback", [0.0, 0.5, 1.0])
def test_an_experts_label_opposes_a_displacement_by_its_feedback(feedback):
    found = label_gain(make(reach(feedback=feedback)), 0)
    assert found is not None
    assert found["n"] > 4
    assert found["value"] == pytest.approx(-feedback, abs=1e-3)


def test_an_expert_that_follows_the_arm_has_gain_one():
    class Follower:
        def __init__(self, task) -> None:
            self.task = task

        def reset(self, ids: Tensor) -> None: ...

        def act(self, view) -> Tensor:
            return self.task.observe(view)["joint_pos"].float()

    task = reach()
    task.expert = lambda *_: Follower(task)
    found = label_gain(make(task), 0)
    assert found is not None
    assert found["value"] == pytest.approx(1.0, abs=1e-4)


class Mixture:
    """A policy that mixes the measured joints with fixed ones."""

    obs_horizon, horizon, exec_horizon = 2, 3, 2

    def __init__(self, gain: float, others: int = 0) -> None:
        self.gain, self.others = gain, others

    def cpu(self):
        return self

    def act(self, obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        noise = 0.01 * torch.randn(len(obs["joint_pos"]), 3, 7, generator=generator)
        joints = self.gain * obs["joint_pos"][:, -1:].expand(-1, 3, -1) + noise
        return torch.nn.functional.pad(joints, (0, self.others))


@pytest.mark.parametrize("gain", [0.0, 0.74])
def test_a_policys_gain_is_that_of_its_first_action(gain):
    found = policy_gain(make(reach()), Mixture(gain), 0)  # pyright: ignore
    assert found is not None
    assert found["value"] == pytest.approx(gain, abs=1e-4)


def test_an_instruction_is_not_displaced():
    cls = load("tasks", "coloured_table")
    told = SimEnv.Config.model_validate({"text_encoder": {"name": "bytes"}})
    task = cls(cls.Config(actions="joints"))
    found = policy_gain(lambda number: SimEnv(told, task, number), Mixture(0.5, 1), 0)  # pyright: ignore
    assert found is not None
    assert found["value"] == pytest.approx(0.5, abs=1e-4)


def test_other_worlds_have_no_gain():
    task = load("tasks", "reach")
    pose = task(task.Config(actions="pose"))
    assert not is_displaceable(make(pose)(1))
    assert label_gain(make(pose), 0) is None


def test_a_view_at_other_joints_changes_no_world():
    env = make(reach())(3)
    env.reset(0)
    before, view = env.snapshot(), env.view
    act = torch.tensor(env.task.robot.home_qpos[:7], dtype=torch.float32).expand(3, 7)
    env.step(act)
    stepped = env.view.sensordata.clone()
    env.restore(before)
    moved = env.view_at(view.qpos + 0.1)
    assert (moved.sensor("ee_pos") - env.view.sensor("ee_pos")).norm(dim=1).min() > 0.01
    assert torch.equal(moved.goal["goal_pos"], env.view.goal["goal_pos"])
    env.step(act)
    assert torch.equal(env.view.sensordata, stepped)
    env.close()
