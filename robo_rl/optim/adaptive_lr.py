"""A learning rate that keeps the size of an update near its target, under a ceiling.

The ceiling falls where a run was led astray, and comes back slowly: the measure, not the ceiling,
is what sizes an update, and a ceiling that stayed would leave the rest of a run with steps too
small to learn from.
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
"""By how much a lowered ceiling rises with each update; a halving is undone after 15."""


class AdaptiveLrConfig(ConfigModel):
    """A learning rate and what it is held within."""

    lr: float = Field(default=1e-4, gt=0.0)
    """Learning rate that training starts with."""
    lr_min: float = Field(default=1e-6, gt=0.0)
    """Lowest learning rate that adaptation reaches."""
    lr_max: float = Field(default=1e-3, gt=0.0)
    """Highest learning rate that adaptation reaches."""

    @model_validator(mode="after")
    def _within_its_bounds(self) -> AdaptiveLrConfig:
        if not self.lr_min <= self.lr <= self.lr_max:
            raise ValueError(
                f"lr {self.lr}: expected from lr_min {self.lr_min} to lr_max {self.lr_max}"
            )
        return self


class AdaptiveLr(Stateful):
    """Sets the rate of a ``ClippedOptimizer`` within bounds.

    Args:
        optimizer: Whose rate it is.
        low: Lowest rate, as long as it is below the ceiling.
        high: Highest rate, and the ceiling until ``halve_below`` lowers it.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("ceiling",)

    def __init__(self, optimizer: ClippedOptimizer, low: float, high: float) -> None:
        self.optimizer, self.low, self.high, self.ceiling = optimizer, low, high, high
        self.start = optimizer.lr

    def set(self, lr: float) -> None:
        """Set the rate, within its bounds."""
        self.optimizer.set_lr(min(max(lr, self.low), self.ceiling))

    def adapt(self, found: float, target: float) -> None:
        """Divide the rate by 1.5 above twice the target, multiply it by 1.5 below half of it.

        Source: rsl_rl's rule for the KL of an update.
        """
        factor = 1.0 / STEP if found > 2.0 * target else STEP if found < 0.5 * target else 1.0
        self.set(self.optimizer.lr * factor)

    def back_off(self, excess: float) -> bool:
        """After a step that led ``excess`` times as far as it should; whether that was possible.

        What a step does grows with the square of its rate. It falls by a tenth at most, and by
        what ``follow`` would take at least.
        """
        before = self.optimizer.lr
        factor = max(excess, 1.0) ** -0.5 if math.isfinite(excess) else 0.0
        self.set(before * min(max(factor, 0.1), 1.0 / STEP))
        return self.optimizer.lr < before

    def recover(self, *, adaptive: bool) -> None:
        """After an update: a ceiling that was lowered rises by ``RECOVERY``.

        So does a rate that ``adaptive`` nothing, up to where it was at the start.
        """
        self.ceiling = min(self.ceiling * RECOVERY, self.high)
        lr = self.optimizer.lr
        self.set(lr if adaptive else max(lr, min(lr * RECOVERY, self.start)))

    def halve_below(self, lr: float) -> None:
        """After a rate that led astray: at most half of it, and slowly more again."""
        self.ceiling = 0.5 * lr
        self.set(self.ceiling)
