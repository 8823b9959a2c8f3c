"""Rules that the observation and the action of a contract obey, whoever wrote the manifest."""

from __future__ import annotations

import math

import numpy as np

from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec


def possible_obs(obs: ObsSpec) -> ObsSpec:
    """Return an observation that a robot can measure.

    Raises:
        ValueError: An item has no elements, an unknown type, or limits that exclude every value.
    """
    for name, spec in obs.items.items():
        if problem := _problem(spec):
            raise ValueError(f"'{name}' {problem}")
    return obs


def possible_act(act: ActSpec) -> ActSpec:
    """Return an action that a robot can execute.

    Raises:
        ValueError: It has no elements, an unknown type, limits that exclude every value, or a rate
            at which no time passes or time stands still.
    """
    if not act.shape:
        raise ValueError("shape: expected at least one axis, found ()")
    if not (math.isfinite(act.rate_hz) and act.rate_hz > 0):
        raise ValueError(f"rate_hz: expected a finite number above 0, found {act.rate_hz}")
    if problem := _problem(act):
        raise ValueError(problem)
    return act


def _problem(spec: TensorSpec) -> str:
    """Return what is impossible in a spec; empty for nothing."""
    if min(spec.shape, default=1) < 1:
        return f"shape: expected sizes of at least 1, found {spec.shape}"
    if not _is_known(spec.dtype):
        return f"dtype: expected numpy's name of a number or bool, found '{spec.dtype}'"
    for index, (low, high) in enumerate(zip(spec.low, spec.high, strict=False)):
        if not low <= high:
            return f"{spec.element(index)}: expected low ≤ high, found low {low}, high {high}"
    nan = [name for name in ("low", "high") if any(map(math.isnan, getattr(spec, name)))]
    return f"{nan[0]}: expected numbers, found nan" if nan else ""


def _is_known(dtype: str) -> bool:
    try:
        known = np.dtype(dtype)
    except TypeError:
        return False
    return known.name == dtype and known.kind in "biuf"
