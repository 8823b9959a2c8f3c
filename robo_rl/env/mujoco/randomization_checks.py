"""Checks of domain randomisation: draws change the model, and stay within its fields' bounds.

Masses, inertias, frictions, dampings, stiffnesses, armatures and limits have bounds here; other
fields, such as gains and solver parameters, have none. Interval arithmetic over the terms gives the
lowest and the highest value that draws reach. A pair of limits is followed by its width, upper less
lower limit.

Shapes: R rows of a field; bounds are (2, R, …), lowest and highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from robo_rl.core.errors import ConfigError
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm, Target

_POSITIVE = frozenset({"body_mass", "body_inertia"})
_NON_NEGATIVE = frozenset(
    {"dof_armature", "dof_damping", "dof_frictionloss", "jnt_stiffness", "geom_friction"}
)
_LIMITS = {
    "actuator_forcerange": "actuator_forcelimited",
    "actuator_ctrlrange": "actuator_ctrllimited",
    "jnt_range": "jnt_limited",
}
"""Field of a pair of limits → the flag of the elements that have limits."""
_FREE_JOINT = 0


def demand_valid(model: Any, targets: Sequence[Target]) -> None:
    """Check terms in their order: each changes the model, and every draw of it is physical.

    Args:
        model: ``MjModel`` with the nominal values.
        targets: The terms with their rows.

    Raises:
        ConfigError: A term would change nothing, or may draw a mass or inertia that is not
            positive, a negative friction, damping, stiffness or armature, or a lower limit that is
            not below the upper one.
    """
    fields = {"body_inertia", *(target.term.field for target in targets)}
    bounds = {field: _nominal(model, field) for field in fields}
    for target in targets:
        term, rows = target.term, target.rows
        _demand_limits(model, target)
        _demand_fixed_pose(model, target)
        old = bounds[term.field][:, rows]
        _demand_change(term, old)
        new = _reached(term, old)
        _demand_physical(term, float(new.min()))
        if term.field == "body_inertia" and term.mode != "scale":
            _demand_inertia(term, new)
        bounds[term.field][:, rows] = new
        if term.field == "body_mass":
            bounds["body_inertia"][:, rows] *= (new / old)[..., None]


def _nominal(model: Any, field: str) -> Any:
    """Return the bounds (2, R, …) of the values before any term: widths (2, R) of limits."""
    values = getattr(model, field).astype(float)
    values = values[:, 1] - values[:, 0] if field in _LIMITS else values
    return np.stack([values, values])


def _reached(term: RandomizeTerm, old: Any) -> Any:
    """Return the bounds (2, R, …) of the values that a term makes of those within ``old``."""
    low, high = term.range
    if term.mode == "scale":
        ends = np.concatenate([old * low, old * high])
        return np.stack([ends.min(0), ends.max(0)])
    if term.field in _LIMITS:  # abs sets -v and v; add moves each limit by its own draw
        low, high = (2 * low, 2 * high) if term.mode == "abs" else (low - high, high - low)
    change = np.array([low, high]).reshape(2, *[1] * (old.ndim - 1))
    return old + change if term.mode == "add" else np.broadcast_to(change, old.shape)


def _demand_limits(model: Any, target: Target) -> None:
    term, flag = target.term, _LIMITS.get(target.term.field)
    if flag is None:
        return
    if not getattr(model, flag)[target.rows].all():
        raise ConfigError(
            f"'{term.field}' of '{term.name}' has no effect, because the element is unlimited",
            where="randomize",
            expected=f"an element whose {flag} is true",
            hint="give it limits in the MJCF, or remove the term",
        )
    if term.mode == "abs" and term.field != "actuator_forcerange":
        raise ConfigError(
            f"one range cannot set both limits of '{term.field}' of '{term.name}'",
            where="randomize",
            expected="mode scale or add",
            found="abs",
            hint="scale or move the limits of the MJCF",
        )


def _demand_fixed_pose(model: Any, target: Target) -> None:
    """Check that a drawn pose of a body is not that of its free joint, which a reset sets."""
    term, row = target.term, target.rows[0]
    if term.field not in ("body_pos", "body_quat"):
        return
    if model.body_jntnum[row] and model.jnt_type[model.body_jntadr[row]] == _FREE_JOINT:
        raise ConfigError(
            f"'{term.field}' of '{term.name}' has no effect, because the body moves freely",
            where="randomize",
            expected="a body that is fixed to its parent, or moves by hinges and slides",
            found="a free joint",
            hint="draw its start in the reset of the task",
        )


def _demand_change(term: RandomizeTerm, old: Any) -> None:
    """Check that a term changes something: a multiple of 0 is 0, one of a rotation the same."""
    if term.field.endswith("quat") and term.mode == "scale":
        said = f"'{term.field}' of '{term.name}' is a unit quaternion, which cannot be scaled"
        raise ConfigError(said, where="randomize", hint="take mode: add, with a small range")
    if old.any():
        return
    if term.field == "body_mass":
        problem, hint = "whose inertia cannot follow it", "give the body a mass in the MJCF"
    elif term.mode == "scale":
        problem, hint = "which cannot be scaled", "take mode: abs, or change the MJCF"
    else:
        return
    said = f"'{term.field}' of '{term.name}' is 0, {problem}"
    raise ConfigError(said, where="randomize", hint=hint)


def _demand_physical(term: RandomizeTerm, lowest: float) -> None:
    """Check the lowest value, of limits the lowest width, that draws reach."""
    expected, invalid = "", False
    if term.field in _LIMITS:
        expected, invalid = "a lower limit below the upper one, at a distance > 0", lowest <= 0
    elif term.field in _POSITIVE:
        expected, invalid = "values > 0", lowest <= 0
    elif term.field in _NON_NEGATIVE:
        expected, invalid = "values >= 0", lowest < 0
    if invalid:
        raise ConfigError(
            f"range {list(term.range)} with mode: {term.mode} makes '{term.field}' of"
            f" '{term.name}' invalid",
            where="randomize",
            expected=expected,
            found=f"{lowest:g} at worst",
            hint="narrow it, or take mode: scale" if term.mode == "add" else "take one above 0",
        )


def _demand_inertia(term: RandomizeTerm, bounds: Any) -> None:
    """Check the triangle inequality A + B >= C of moments (2, R, 3) that are drawn one by one."""
    low, high = np.sort(bounds[0], axis=-1), bounds[1].max(axis=-1)
    if (low[:, 0] + low[:, 1] < high).any():
        raise ConfigError(
            f"range {list(term.range)} with mode: {term.mode} makes '{term.field}' of"
            f" '{term.name}' that of no body",
            where="randomize",
            expected="two moments whose sum is at least the third one, at every draw",
            found=f"{low[:, :2].sum(axis=-1).min():g} and {high.max():g} at worst",
            hint="narrow it, or take mode: scale",
        )
