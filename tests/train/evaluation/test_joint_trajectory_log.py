"""A filmed env keeps the first episode of every env, frame by frame, and changes nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.train.evaluation.joint_trajectory_log import TrajectoryRecorderEnv, record_trajectories


class Counter:
    """Adds the action to qpos; env b ends after 3 + 2b steps, with success where b is odd."""

    num_envs, device, dt_s, max_episode_steps = 2, torch.device("cpu"), 0.05, 10
    obs_spec = ObsSpec(items={"qpos": TensorSpec(shape=(1,))})
    act_spec = ActSpec(shape=(1,), rate_hz=20.0)

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        self.qpos, self.elapsed = torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64)
        return {"qpos": self.qpos.clone()}

    @property
    def view(self) -> SimpleNamespace:
        return SimpleNamespace(qpos=self.qpos, goal={"target": torch.tensor([[1.0], [2.0]])})

    def step(self, act: Tensor) -> Step:
        self.qpos += act
        self.elapsed += 1
        next_obs = {"qpos": self.qpos.clone()}
        over = self.elapsed >= torch.tensor([3, 5])
        success = (over & torch.tensor([False, True])).float()
        self.qpos[over] = -100.0
        self.elapsed[over] = 0
        none = torch.zeros(2, dtype=torch.bool)
        obs = {"qpos": self.qpos.clone()}
        return Step(obs, next_obs, torch.zeros(2), over, none, ~none, {"success": success})

    def close(self) -> None: ...


def up(obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
    return torch.ones(len(obs["qpos"]), 4, 1)


def test_first_episodes_are_kept_step_by_step_and_nothing_of_the_second() -> None:
    clips = record_trajectories(up, Counter(), obs_horizon=2, exec_horizon=4, seed=0)
    assert [clip.qpos[:, 0].tolist() for clip in clips] == [[0, 1, 2], [0, 1, 2, 3, 4]]
    assert [clip.success for clip in clips] == [False, True]
    assert [clip.goal["target"].item() for clip in clips] == [1.0, 2.0]
    assert all(clip.qpos.dtype == np.float32 for clip in clips)


def test_reset_begins_the_record_anew() -> None:
    filmed = TrajectoryRecorderEnv(Counter())
    filmed.reset(0)
    filmed.step(torch.ones(2, 1))
    filmed.reset(0)
    assert [len(clip.qpos) for clip in filmed.clips()] == [1, 1]
