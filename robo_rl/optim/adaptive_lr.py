"""A learning rate that adapts to the size of an update, below a variable ceiling.

A rollback lowers the ceiling. The ceiling then recovers slowly, because a permanent ceiling would
keep all later steps small.
"""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field, model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.core.stateful import Stateful
from robo_rl.optim.optimizer import ClippedOptimizer

STEP = 1.5
RECOVERY = 1.05
"""Growth factor of a lowered ceiling per update; a halving is recovered after 15 updates."""


class AdaptiveLrConfig(ConfigModel):
    """A learning rate and its bounds."""

    lr: float = Field(default=1e-4, gt=0.0)
    """Initial learning rate."""
    lr_min: float = Field(default=1e-6, gt=0.0)
    """Lowest learning rate of the adaptation."""
    lr_max: float = Field(default=1e-3, gt=0.0)
    """Highest learning rate of the adaptation."""

    @model_validator(mode="after")
    def _within_its_bounds(self) -> AdaptiveLrConfig:
        if not self.lr_min <= self.lr <= self.lr_max:
            raise ValueError(
                f"lr {self.lr}: expected from lr_min {self.lr_min} to lr_max {self.lr_max}"
            )
        return self


class AdaptiveLr(Stateful):
    """Sets the learning rate of a ``ClippedOptimizer`` within bounds.

    Args:
        optimizer: The optimizer.
        low: Lowest learning rate, unless the ceiling is lower.
        high: Highest learning rate, and the ceiling until ``halve_below`` lowers it.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("ceiling",)

    def __init__(self, optimizer: ClippedOptimizer, low: float, high: float) -> None:
        self.optimizer, self.low, self.high, self.ceiling = optimizer, low, high, high
        self.start = optimizer.lr

    def set(self, lr: float) -> None:
        """Set the learning rate, clipped to its bounds."""
        self.optimizer.set_lr(min(max(lr, self.low), self.ceiling))

    def adapt(self, found: float, target: float) -> None:
        """Divide the rate by 1.5 above twice the target; multiply it by 1.5 below half the target.

        Source: the KL-adaptive learning rate of rsl_rl.
        """
        factor = 1.0 / STEP if found > 2.0 * target else STEP if found < 0.5 * target else 1.0
        self.set(self.optimizer.lr * factor)

    def rescale(self, excess: float, power: float = 2.0) -> bool:
        """Set the rate at which a step that exceeded its target by ``excess`` would meet it.

        The distance of a step is proportional to rate^``power``. The rate changes by a factor of 10
        at most. Without an excess above 0, where nothing moved up to rounding, it stays.

        Returns:
            Whether the rate changed.
        """
        before = self.optimizer.lr
        if not excess <= 0.0:  # NaN lowers the rate
            self.set(before * min(max(_law(excess, power), 0.1), 10.0))
        return self.optimizer.lr != before

    def back_off(self, excess: float, power: float = 2.0) -> bool:
        """Lower the rate after a step that exceeded the target by the factor ``excess``.

        The distance of a step is proportional to rate^``power``. The rate falls at least by the
        factor 1.5 of ``adapt``, and at most by a factor of 10.

        Returns:
            Whether the rate fell.
        """
        before = self.optimizer.lr
        self.set(before * min(max(_law(max(excess, 1.0), power), 0.1), 1.0 / STEP))
        return self.optimizer.lr < before

    def recover(self, *, adaptive: bool) -> None:
        """Raise a lowered ceiling by ``RECOVERY`` after an update.

        If the rate is not adaptive, it rises by the same factor up to its initial value.
        """
        self.ceiling = min(self.ceiling * RECOVERY, self.high)
        lr = self.optimizer.lr
        self.set(lr if adaptive else max(lr, min(lr * RECOVERY, self.start)))

    def halve_below(self, lr: float) -> None:
        """Set the rate and its ceiling to half of ``lr``, after a rollback."""
        self.ceiling = 0.5 * lr
        self.set(self.ceiling)


def _law(excess: float, power: float = 2.0) -> float:
    """Factor of the rate that removes an excess above 0, given distance ∝ rate^``power``."""
    return excess ** (-1.0 / power) if math.isfinite(excess) else 0.0
