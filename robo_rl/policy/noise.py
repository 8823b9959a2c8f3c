"""How much a step explores: every sampler holds its steps' std within bounds.

One std draws and scores. RL-100 bounds it to [0.0067, 0.1] on hardware (arXiv 2510.14830): above,
exploration leaves what the machine can take, below, log-probabilities are not finite. DPPO floors
it at 0.1 (2409.00588, section 4.2). A step that is deterministic stays so.
"""

from __future__ import annotations

import math
from typing import Self

import torch
from pydantic import model_validator
from torch import Tensor

from robo_rl.policy.schedule import NonNegative, Positive, Scheduled, start_value


class StdBounds(Scheduled):
    """Bounds of a random step's std, in normalised action units; None is unbounded."""

    std_min: NonNegative = 0.0
    """Least standard deviation of a random step, in normalised action units."""
    std_max: Positive | None = None
    """Largest such deviation, likewise; null is no bound."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        low, high = std_bounds(self)
        if low > high:
            raise ValueError(f"std_min {low} is above std_max {high}")
        return self


class LearntStd(StdBounds):
    """Bounds of a learnt std, in normalised action units; it starts at their geometric middle."""

    std_min: Positive = 0.01
    """Least learnt standard deviation, in normalised action units."""
    std_max: Positive = 0.3
    """Largest learnt standard deviation, in normalised action units."""


def std_bounds(bounds: StdBounds) -> tuple[float, float]:
    """(lowest, highest) std of a random step."""
    high = math.inf if bounds.std_max is None else start_value(bounds.std_max)
    return start_value(bounds.std_min), high


def clamp_std(
    std: Tensor, bounds: StdBounds, *, unit: float = 1.0, random: Tensor | None = None
) -> Tensor:
    """Hold the stds of steps within the bounds.

    Args:
        std: (K,), in units of ``unit``.
        bounds: In normalised action units.
        unit: In the same.
        random: (K,) bool, the steps that are to be held; by default those whose std is not 0.
    """
    low, high = std_bounds(bounds)
    random = std > 0 if random is None else random
    return torch.where(random, std.clamp(low / unit, high / unit), std)


def learnt_std(raw: Tensor | None, bounds: LearntStd) -> Tensor:
    """Squash a raw noise level into the bounds in log variance; None is the middle.

    log σ² = log σ_min² + (log σ_max² − log σ_min²)·(tanh raw + 1)/2 (ReinFlow, arXiv 2505.22094,
    appendix; Flow-Noise, 2510.25889, likewise). Bounds that are annealed carry σ along: what is
    learnt is where between them it lies.
    """
    low, high = std_bounds(bounds)
    level = torch.zeros(1, 1, 1) if raw is None else raw.tanh()
    return (math.log(low) + 0.5 * math.log(high / low) * (level + 1.0)).exp()
