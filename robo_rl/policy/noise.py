"""Bounds of the exploration noise: every sampler clamps the std of its steps.

The same std samples and scores. RL-100 bounds it to [0.0067, 0.1] on hardware (arXiv 2510.14830).
Above that range, exploration can damage hardware; below it, log-probabilities are not finite. DPPO
uses a lower bound of 0.1 (2409.00588, section 4.2). Deterministic steps stay deterministic.
"""

from __future__ import annotations

import math
from typing import Self

import torch
from pydantic import model_validator
from torch import Tensor

from robo_rl.policy.schedule import NonNegative, Positive, Scheduled, start_value


class StdBounds(Scheduled):
    """Bounds of a stochastic step's std, in normalised action units; None is unbounded."""

    std_min: NonNegative = 0.0
    """Smallest standard deviation of a stochastic step, in normalised action units."""
    std_max: Positive | None = None
    """Largest standard deviation of a stochastic step, in the same units; null is no bound."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        low, high = std_bounds(self)
        if low > high:
            raise ValueError(f"std_min {low} is above std_max {high}")
        return self


class LearntStd(StdBounds):
    """Bounds of a learnt std, in normalised action units; it starts at their geometric mean."""

    std_min: Positive = 0.01
    """Smallest learnt standard deviation, in normalised action units."""
    std_max: Positive = 0.3
    """Largest learnt standard deviation, in normalised action units."""


def std_bounds(bounds: StdBounds) -> tuple[float, float]:
    """Return the smallest and the largest std of a stochastic step."""
    high = math.inf if bounds.std_max is None else start_value(bounds.std_max)
    return start_value(bounds.std_min), high


def clamp_std(
    std: Tensor, bounds: StdBounds, *, unit: float = 1.0, random: Tensor | None = None
) -> Tensor:
    """Clamp the stds of steps to the bounds.

    Args:
        std: (K,), in units of ``unit``.
        bounds: In normalised action units.
        unit: In normalised action units.
        random: (K,) bool, the steps to clamp; by default those with a std above 0.
    """
    low, high = std_bounds(bounds)
    random = std > 0 if random is None else random
    return torch.where(random, std.clamp(low / unit, high / unit), std)


def learnt_std(raw: Tensor | None, bounds: LearntStd) -> Tensor:
    """Squash a raw noise level into the bounds in log variance; None is the middle.

    log σ² = log σ_min² + (log σ_max² − log σ_min²)·(tanh raw + 1)/2 (ReinFlow, arXiv 2505.22094,
    appendix; Flow-Noise, 2510.25889, likewise). The learnt level is relative to the bounds, so σ
    follows annealed bounds.
    """
    low, high = std_bounds(bounds)
    level = torch.zeros(1, 1, 1) if raw is None else raw.tanh()
    return (math.log(low) + 0.5 * math.log(high / low) * (level + 1.0)).exp()
