"""Bounds of the exploration noise: every sampler clamps the std of its steps.

The same std samples and scores. RL-100 bounds it to [0.0067, 0.1] on hardware (arXiv 2510.14830).
Above that range, exploration can damage hardware; below it, log-probabilities are not finite. DPPO
uses a lower bound of 0.1 (2409.00588, section 4.2). Deterministic steps stay deterministic.

Published bounds are shares of a *delta* action's range: of what one control step may move. For
absolute targets the same number is a share of the whole range, far more than a step. ``std_unit:
step`` makes a bound a multiple of what one control step moves, for each action element. An element
that hardly moves has a share of what the others move.

``std_unit: chunk`` is for noise that is one offset of a whole chunk (``chunk_correlation: 1``). An
offset of σ moves an absolute target by σ, and delta actions of E executed steps move it by E·σ. The
unit of absolute elements is therefore E control steps: the same share of what a chunk moves.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self, cast

import torch
from pydantic import model_validator
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec
from robo_rl.data.normalize import MIN_STEP, Normalizer
from robo_rl.policy.placed import placed
from robo_rl.policy.schedule import NonNegative, Positive, Scheduled, start_value

MIN_STEP_SHARE = 1 / 3
"""Least unit of an element's std, as a share of the median over the elements that move."""

StdUnit = Literal["range", "step", "chunk"]
"""Unit of a std: half the action's normalised range, or what a control step or a chunk moves."""


class StdBounds(Scheduled):
    """Bounds of a stochastic step's std, in units of ``std_unit``; None is unbounded."""

    std_min: NonNegative = 0.0
    """Smallest standard deviation of a stochastic step, in units of ``std_unit``."""
    std_max: Positive | None = None
    """Largest standard deviation of a stochastic step, in the same units; null is no bound."""
    std_unit: StdUnit = "range"
    """Unit of the bounds: ``range`` (normalised action units), ``step`` (typical change of each
    action element in one control step of the data, at least a third of the median over the
    elements that move), or ``chunk`` (``step`` times ``exec_horizon``, at most ``range``). All
    three are equal for delta actions."""

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        low, high = std_bounds(self)
        if low > high:
            raise ValueError(f"std_min {low} is above std_max {high}")
        return self


class LearntStd(StdBounds):
    """Bounds of a learnt std, in units of ``std_unit``; it starts at their geometric mean."""

    std_min: Positive = 0.01
    """Smallest learnt standard deviation, in units of ``std_unit``."""
    std_max: Positive = 0.3
    """Largest learnt standard deviation, in units of ``std_unit``."""


StdScale = Tensor | float
"""What a unit of the bounds is in normalised action units: (A,) by element, or 1."""


def std_bounds(bounds: StdBounds) -> tuple[float, float]:
    """Return the smallest and the largest std of a stochastic step, in units of ``std_unit``."""
    high = math.inf if bounds.std_max is None else start_value(bounds.std_max)
    return start_value(bounds.std_min), high


def clamp_std(
    std: Tensor,
    bounds: StdBounds,
    *,
    unit: float = 1.0,
    scale: StdScale = 1.0,
    random: Tensor | None = None,
) -> Tensor:
    """Clamp the stds of steps to the bounds: (K,), or (K, A) for a scale by element.

    Args:
        std: (K,), in units of ``unit``.
        bounds: In units of ``scale``.
        unit: In normalised action units.
        scale: In normalised action units.
        random: (K,) bool, the steps to clamp; by default those with a std above 0.
    """
    low, high = (cast("Any", bound * scale / unit) for bound in std_bounds(bounds))
    random = std > 0 if random is None else random
    std, random = per_element(std, scale), per_element(random, scale)
    return torch.where(random, std.clamp(low, high), std)


def per_element(table: Tensor, scale: StdScale) -> Tensor:
    """Return a table (K,) as (K, 1) beside a scale by element, else unchanged."""
    return table[:, None] if isinstance(scale, Tensor) else table


def learnt_std(
    raw: Tensor | None, bounds: LearntStd, like: Tensor, scale: StdScale = 1.0
) -> Tensor:
    """Squash a raw noise level into the bounds in log variance; None is the middle.

    The result is in normalised action units, the bounds in units of ``scale``. Without a level it
    has the type and device of ``like``.

    log σ² = log σ_min² + (log σ_max² − log σ_min²)·(tanh raw + 1)/2 (ReinFlow, arXiv 2505.22094,
    appendix; Flow-Noise, 2510.25889, likewise). The learnt level is relative to the bounds, so σ
    follows annealed bounds.
    """
    low, high = std_bounds(bounds)
    level = like.new_zeros(1, 1, 1) if raw is None else raw.tanh()
    std = (math.log(low) + 0.5 * math.log(high / low) * (level + 1.0)).exp()
    return std * placed(scale, std) if isinstance(scale, Tensor) else std


def std_scale(
    cfg: ConfigModel | None, act_spec: ActSpec, normalizer: Normalizer, exec_horizon: int
) -> tuple[Tensor, ...]:
    """Return ``StdScale`` of a sampler whose std is in control steps or chunks; empty for another.

    A delta action is what a control step moves, so the unit of such an element is its normalised
    range. An element that hardly moves in the demonstrations has ``MIN_STEP_SHARE`` of the median
    unit, or of half the range between its limits if that is less. With less noise, the KL of a
    change of its mean is far above that of the other elements, and the limits on an update hold
    for their sum.

    Args:
        cfg: Settings of the sampler.
        act_spec: Actions.
        normalizer: Knows what a control step moves.
        exec_horizon: Executed control steps of a chunk.

    Raises:
        ConfigError: The normaliser does not know what a control step moves.
    """
    is_delta = torch.tensor(act_spec.is_delta)
    kind = getattr(cfg, "std_unit", "range")
    if kind == "range" or bool(is_delta.all()):
        return ()
    step = normalizer.step_size("act")
    if step is None:
        raise ConfigError(
            "the policy does not know what a control step moves",
            where="sampler.std_unit",
            expected="range, or a policy cloned from demonstrations by this version",
            found=kind,
            hint="clone the policy again, or give the std in units of the range",
        )
    moved = _moved(step.cpu(), exec_horizon if kind == "chunk" else 1)
    unit = torch.where(is_delta, 1.0, moved)
    return (unit.maximum(_min_unit(unit, act_spec, normalizer)),)


def _moved(step: Tensor, steps: int) -> Tensor:
    """Return what so many control steps move, at most half the range where one moves less."""
    return torch.where(step > MIN_STEP, (steps * step).minimum(step.clamp(min=1.0)), step)


def _min_unit(unit: Tensor, act_spec: ActSpec, normalizer: Normalizer) -> Tensor:
    """Return the lower bound (A,) of the unit of each element, in normalised action units."""
    moving = unit[unit > MIN_STEP]
    least = (moving if len(moving) else unit).quantile(0.5).expand_as(unit)
    if act_spec.low and act_spec.high:
        half = (torch.tensor(act_spec.high) - torch.tensor(act_spec.low)).double() / 2
        least = least.minimum(half / normalizer.affine("act").scale.cpu())
    return MIN_STEP_SHARE * least
