"""The collapse guard: keeps the last good policy and says when to go back to it.

The KL stop and the adaptive rate in ``ppo`` keep single updates small; this one watches what they
add up to.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import Field

from robo_rl.config import ConfigModel


class CollapseGuard:
    """Watches the success rate of training episodes (never of evaluation).

    The rate is smoothed; the state at its best is kept. When it has been more than ``drop`` below
    its best for ``patience`` blocks in a row, the kept state is handed back.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Weight of a new block in the smoothed rate, fall that counts, how long it may last."""

        smoothing: float = Field(default=0.3, gt=0.0, le=1.0)
        drop: float = Field(default=0.15, gt=0.0, le=1.0)
        patience: int = Field(default=5, ge=1)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.rate: float | None = None
        self.best = 0.0
        self.below = 0
        self.rollbacks = 0
        self.kept: dict[str, Any] | None = None

    def observe(self, success: float, state: dict[str, Any]) -> dict[str, Any] | None:
        """Take in a block's success rate and the state that follows it.

        Args:
            success: Share of the block's finished episodes that succeeded.
            state: Nested dicts of tensors; copied when it is the best so far.

        Returns:
            The state to go back to, or None.
        """
        weight = self.cfg.smoothing
        self.rate = success if self.rate is None else (1 - weight) * self.rate + weight * success
        if self.rate >= self.best or self.kept is None:
            self.best, self.kept, self.below = self.rate, copy.deepcopy(state), 0
            return None
        self.below = self.below + 1 if self.rate < self.best - self.cfg.drop else 0
        if self.below < self.cfg.patience:
            return None
        self.rate, self.below = self.best, 0
        self.rollbacks += 1
        return copy.deepcopy(self.kept)

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        names = ("rate", "best", "below", "rollbacks", "kept")
        return {name: copy.deepcopy(getattr(self, name)) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.__dict__.update(state)
