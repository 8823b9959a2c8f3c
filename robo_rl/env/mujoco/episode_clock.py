"""The time of each env's episode, in control steps and in seconds.

Shapes: B envs, n envs that begin an episode.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.api.task import Task
from robo_rl.core.errors import ConfigError


class EpisodeClock:
    """Counts the control steps of B episodes.

    Args:
        task: The task, which has the control period and the episode's length, in seconds.
        timestep_s: Physics step.
        num_envs: B.
        device: Device of the counts.

    Raises:
        ConfigError: The control period is not a multiple of the physics step.
    """

    def __init__(self, task: Task, timestep_s: float, num_envs: int, device: torch.device) -> None:
        self.max_steps = round(task.episode_s / task.dt_s)
        self.substeps = _substeps(task.dt_s, timestep_s)
        self.elapsed = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._timestep_s = timestep_s

    def start(self, ids: Tensor) -> None:
        """Set the envs ids (n,) to the start of an episode."""
        self.elapsed[ids] = 0

    def advance(self) -> None:
        """Count one control step in every env."""
        self.elapsed += 1

    @property
    def at_limit(self) -> Tensor:
        """Return (B,), True where the episode has its full length."""
        return self.elapsed >= self.max_steps

    def agrees(self, time_s: Tensor) -> Tensor:
        """Return (B,), False where a world's time time_s (B,) lacks a physics step or more."""
        due_s = (self.elapsed - 0.5 / self.substeps) * (self.substeps * self._timestep_s)
        return time_s > due_s


def _substeps(dt_s: float, timestep_s: float) -> int:
    substeps = round(dt_s / timestep_s)
    if substeps < 1 or abs(substeps * timestep_s - dt_s) > 1e-6 * dt_s:
        raise ConfigError(
            "control period is not a multiple of the physics step",
            expected=f"a multiple of {timestep_s} s",
            found=f"{dt_s} s",
        )
    return substeps
