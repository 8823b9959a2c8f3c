"""Compares a contract with a robot or env: joint order, units, frames, limits, rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from robo_rl.bundle.manifest import Contract
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec


class Mismatch(NamedTuple):
    """A field that differs: the value of the policy's training, and the value found."""

    field: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.field}: expected {_text(self.expected)}, found {_text(self.found)}"


def mismatches(
    contract: Contract,
    obs_spec: ObsSpec,
    act_spec: ActSpec,
    *,
    robot: str | None = None,
    task: str | None = None,
) -> list[Mismatch]:
    """Return all differences that change the meaning of the policy's inputs or outputs.

    Args:
        contract: Contract of the policy.
        obs_spec: Spec of the measurements; observations that the policy does not use are ignored.
        act_spec: Spec of the commands.
        robot: Name of the robot; None does not compare.
        task: Name of the task; None does not compare.
    """
    found: list[Mismatch] = []
    for field, given in (("robot", robot), ("task", task)):
        if given is not None and given != getattr(contract, field):
            found.append(Mismatch(field, getattr(contract, field), given))
    for name, spec in contract.obs.items.items():
        if name in obs_spec.items:
            found += _compare(f"obs '{name}'", spec, obs_spec.items[name])
        else:
            found.append(Mismatch(f"obs '{name}'", "a measurement", "none of that name"))
    return found + list(_compare("act", contract.act, act_spec))


def _compare(where: str, expected: TensorSpec, found: TensorSpec) -> Iterator[Mismatch]:
    for field in type(expected).model_fields:
        one, other = getattr(expected, field), getattr(found, field)
        if not _same(one, other):
            note = " (same names, another order)" if _permuted(field, one, other) else ""
            yield Mismatch(f"{where} {field}{note}", one, other)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return all(_same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return one == other


def _permuted(field: str, one: Any, other: Any) -> bool:
    return field == "names" and sorted(one) == sorted(other)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
