"""Stopping rule of the online RL loop: budget and success thresholds."""

from __future__ import annotations

import math
from typing import ClassVar

import torch

from robo_rl.core.stateful import Stateful
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.loop_config import LoopConfig


class StoppingRule(Stateful):
    """Decides from the latest training episodes and the spent budget when training ends.

    Args:
        cfg: Budget and thresholds.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("recent", "enough")

    def __init__(self, cfg: LoopConfig) -> None:
        self._cfg = cfg
        self.recent = torch.zeros(0, 3, dtype=torch.float64)  # update, success, return
        self.enough = False

    def update(self, outcomes: EpisodeOutcomes, env_steps: int) -> None:
        """Add the episodes of an update.

        Cohorts count as a whole, because the slow episodes of a cohort end last and most of them
        fail.

        Args:
            outcomes: Success and return of each episode.
            env_steps: Env steps so far.
        """
        self._take(outcomes)
        full = len(self.recent) >= self._cfg.stop_episodes
        success, returns = self.recent[:, 1:].mean(dim=0).tolist()
        wanted = math.inf if self._cfg.stop_return is None else self._cfg.stop_return
        spent = env_steps >= (self._cfg.env_steps or math.inf)
        good = full and (success >= self._cfg.stop_success or returns >= wanted)
        self.enough = spent or good

    def _take(self, outcomes: EpisodeOutcomes) -> None:
        """Keep the fewest latest updates with at least ``stop_episodes`` episodes in total."""
        update = float(self.recent[-1, 0]) + 1.0 if len(self.recent) else 0.0
        number = torch.full((len(outcomes.success),), update, dtype=torch.float64)
        rows = torch.stack([number, *(column.double() for column in outcomes)], dim=1)
        recent = torch.cat([self.recent, rows])
        if len(recent) >= self._cfg.stop_episodes:
            recent = recent[recent[:, 0] >= recent[-self._cfg.stop_episodes, 0]]
        self.recent = recent

    def is_due(self, updates: int) -> bool:
        """Return whether training ends after ``updates`` updates."""
        return self.enough or updates >= self._cfg.updates

    def budget_fraction(self, updates: int, env_steps: int) -> float:
        """Return the spent fraction of the budget, the larger of updates and env steps."""
        shares = [updates / self._cfg.updates]
        if self._cfg.env_steps:
            shares.append(env_steps / self._cfg.env_steps)
        return min(max(shares), 1.0)

    def expected_updates(self, updates: int, env_steps: int) -> int:
        """Return the number of updates within the budget, at the env steps per update so far."""
        if not self._cfg.env_steps or not env_steps:
            return self._cfg.updates
        return min(self._cfg.updates, -(-updates * self._cfg.env_steps // env_steps))
