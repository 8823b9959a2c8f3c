"""Stopping rule of the online RL loop: budget and success thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch

from robo_rl.core.stateful import Stateful
from robo_rl.distributed.process_group import broadcast_int, rank_info
from robo_rl.train.evaluation.comparison import lowest_mean_returns
from robo_rl.train.evaluation.evaluate import EvalResult
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.loop_config import LoopConfig

_PATIENCE = 10
"""Updates after an evaluation that did not confirm a threshold, before the next."""


class StoppingRule(Stateful):
    """Decides from the latest training episodes and the spent budget when training ends.

    A policy may reach its goal by exploration noise alone, so that a threshold of training episodes
    ends training only if episodes without exploration confirm it.

    Args:
        cfg: Budget and thresholds.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("recent", "enough", "wait")

    def __init__(self, cfg: LoopConfig) -> None:
        self._cfg = cfg
        self.recent = torch.zeros(0, 3, dtype=torch.float64)  # update, success, return
        self.enough = self.asks = False
        self.wait = 0

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
        spent = env_steps >= (self._cfg.env_steps or math.inf)
        good = full and self._suffices(*self.recent[:, 1:].mean(dim=0).tolist())
        self.enough = spent or (good and not self._cfg.stop_confirm)
        self.wait = max(0, self.wait - 1)
        self.asks = good and not self.enough and not self.wait

    def confirm(self, evaluate: Callable[[], EvalResult]) -> dict[str, float]:
        """Evaluate if a threshold awaits it, and end training if it is reached; return metrics.

        Args:
            evaluate: Runs ``stop_confirm`` episodes without exploration; the first process calls it
                for all.
        """
        if not self.asks:
            return {}
        metrics, reached = dict[str, float](), False
        if rank_info().rank == 0:
            found = evaluate()
            reached = self._suffices(found.rate, *lowest_mean_returns([found]))
            metrics = {"stop/success": found.rate, "stop/return": found.mean_return}
        self.enough, self.asks = bool(broadcast_int(int(reached))), False
        self.wait = _PATIENCE
        return metrics

    def _suffices(self, success: float, returns: float) -> bool:
        wanted = math.inf if self._cfg.stop_return is None else self._cfg.stop_return
        return success >= self._cfg.stop_success or returns >= wanted

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
        within = -(-updates * self._cfg.env_steps // env_steps)
        return max(updates, min(self._cfg.updates, within))
