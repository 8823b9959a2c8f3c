"""Records the joint positions of a policy's episodes, so that they can be rendered separately.

Shapes: T frames, B envs, To history, H horizon, A act_dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robo_rl.api.env import Step, VecEnv
from robo_rl.core.seeding import derive, make_generator
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.train.evaluation.evaluate import Act
from robo_rl.train.evaluation.render_videos import render_clips


@dataclass(frozen=True)
class Clip:
    """A recorded episode for rendering.

    Args:
        qpos: (T, nq) float32, one row per control step.
        goal: Goal name → its value during the episode.
        success: Whether the episode succeeded at any step.
    """

    qpos: np.ndarray
    goal: dict[str, np.ndarray]
    success: bool


class TrajectoryRecorderEnv:
    """A simulated ``VecEnv`` that records the first episode of every env.

    It has no open-loop rollout, so chunks are stepped and recorded action by action.

    Args:
        env: An env with a ``view``, as ``SimEnv`` has.
    """

    def __init__(self, env: Any) -> None:
        self.env = self.__wrapped__ = env
        self.num_envs, self.device = env.num_envs, env.device
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.dt_s, self.max_episode_steps = env.dt_s, env.max_episode_steps
        self.running = torch.zeros(0, dtype=torch.bool)
        self._success = torch.zeros(0, dtype=torch.bool)
        self._goal: dict[str, Tensor] = {}
        self._frames: list[list[np.ndarray]] = []

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start new episodes and a new record."""
        obs = self.env.reset(seed)
        self.running = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        self._success = ~self.running
        self._frames = [[] for _ in range(self.num_envs)]
        self._goal = {name: value.clone() for name, value in self.env.view.goal.items()}
        self._keep()
        return obs

    def step(self, act: Tensor) -> Step:
        """Step and record the positions of envs that are still in their first episode."""
        step = self.env.step(act)
        self._success |= self.running & step.success
        self.running = self.running & ~(step.terminated | step.truncated)
        self._keep()
        return step

    def close(self) -> None:
        """Close the env; the record stays."""
        self.env.close()

    def clips(self) -> list[Clip]:
        """Return the recorded episodes, one per env."""
        return [
            Clip(
                np.stack(frames),
                {name: value[env].cpu().numpy() for name, value in self._goal.items()},
                bool(self._success[env]),
            )
            for env, frames in enumerate(self._frames)
        ]

    def _keep(self) -> None:
        qpos = self.env.view.qpos.cpu().numpy()
        for env in self.running.nonzero().flatten().tolist():
            self._frames[env].append(qpos[env].astype(np.float32))


@torch.no_grad()
def record_trajectories(
    act: Act, env: VecEnv, *, obs_horizon: int, exec_horizon: int, seed: int
) -> list[Clip]:
    """Run and record one episode in every env of a simulation.

    Args:
        act: The policy under its evaluation sampler.
        env: A ``SimEnv``; it stays open.
        obs_horizon: To.
        exec_horizon: Actions executed of each chunk.
        seed: Seed of the start states; equal seeds give equal start states.
    """
    filmed = TrajectoryRecorderEnv(env)
    chunks = ChunkEnv(filmed, obs_horizon=obs_horizon, exec_horizon=exec_horizon, gamma=1.0)
    generator = make_generator("film-noise", seed, device=env.device)
    obs = chunks.reset(derive("film", seed))
    while bool(filmed.running.any()):
        obs = chunks.step(act(obs, generator)).obs
    return filmed.clips()


def render_policy_video(
    act: Act,
    env: Any,
    path: Path,
    *,
    obs_horizon: int,
    exec_horizon: int,
    seed: int,
    camera: str = "front",
) -> Path | None:
    """Record and render a video of all envs side by side; see ``record_trajectories``.

    Args:
        act: The policy under its evaluation sampler.
        env: A ``SimEnv`` of a few envs; it stays open.
        path: ``.mp4`` to write.
        obs_horizon: To.
        exec_horizon: Actions executed of each chunk.
        seed: Seed of the start states; equal seeds give equal start states.
        camera: Camera of the scene; the free camera if the scene has none of that name.

    Returns:
        ``path``, or None if this machine cannot render.
    """
    clips = record_trajectories(
        act, env, obs_horizon=obs_horizon, exec_horizon=exec_horizon, seed=seed
    )
    return render_clips(env.task.scene(), clips, path, camera=camera, fps=1.0 / env.dt_s)
