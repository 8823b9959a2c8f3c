"""Finds actions outside the limits of their spec.

Shapes: L steps of an episode, A act_dim.

Such an action is valid data, because envs and robots clip actions. But it may show a sensor or unit
error. If actions are normalised by their range, a single one determines the scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.spec import ActSpec

_ROUNDING = 1e-6

MOST_EXAMPLES = 50
"""Number of violations that are kept one by one: wrong units make one of every value."""


class LimitViolation(NamedTuple):
    """An action outside its limits.

    Args:
        episode: Its index in the dataset.
        row: Its row in the episode.
        name: Name of the action.
        value: Its value.
        limit: The limit that it exceeds.
        unit: Unit of both, after a space; empty for none.
    """

    episode: int
    row: int
    name: str
    value: float
    limit: float
    unit: str

    @property
    def excess(self) -> float:
        """The distance beyond the limit, in its unit."""
        return abs(self.value - self.limit)

    def __str__(self) -> str:
        value, limit = f"{self.value:.6g}{self.unit}", f"{self.limit:.6g}{self.unit}"
        return f"episode {self.episode}, row {self.row}: '{self.name}' is {value}, limit {limit}"


class LimitViolations(NamedTuple):
    """All limit violations of a dataset.

    Args:
        rows: Number of rows with a violation.
        total_rows: Number of all rows.
        examples: The violations, in order; the farthest 50 if there are more.
        elements: Number of all violations.
    """

    rows: int
    total_rows: int
    examples: tuple[LimitViolation, ...]
    elements: int

    @property
    def worst(self) -> LimitViolation:
        """The violation with the largest excess; exists if ``rows`` is not 0."""
        return max(self.examples, key=lambda each: each.excess)

    def __str__(self) -> str:
        """Return the number of rows and the worst violation as text."""
        where = f"in {self.rows} of {self.total_rows} rows"
        return f"actions outside their limits {where}, the farthest in {self.worst}"


def find_limit_violations(
    spec: ActSpec, episodes: Iterable[tuple[int, NDArray[Any]]]
) -> LimitViolations:
    """Find actions outside the limits of ``spec``, with a tolerance for rounding.

    Args:
        spec: Spec with the limits; without limits there are no violations.
        episodes: Index and actions (L, A) of each episode.
    """
    rows, total, elements, found = 0, 0, 0, list[LimitViolation]()
    for episode, act in episodes:
        values, limits, beyond = _beyond(spec, act)
        rows, total = rows + int(beyond.any(axis=1).sum()), total + len(act)
        elements += int(beyond.sum())
        for row, column in _farthest(values, limits, beyond):
            i = column % _width(spec)
            value, limit = float(values[row, column]), float(limits[row, column])
            found.append(
                LimitViolation(episode, row, spec.element(i), value, limit, spec.unit_of(i))
            )
        if len(found) > MOST_EXAMPLES:
            kept = sorted(range(len(found)), key=lambda n: -found[n].excess)[:MOST_EXAMPLES]
            found = [found[n] for n in sorted(kept)]
    return LimitViolations(rows, total, tuple(found), elements)


def _farthest(
    values: NDArray[Any], limits: NDArray[Any], beyond: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Return row and column of the farthest values beyond, in order."""
    places = np.flatnonzero(beyond)
    excess = np.abs(values - limits).ravel()[places]
    chosen = np.sort(places[np.argsort(-excess, kind="stable")[:MOST_EXAMPLES]])
    return [divmod(place, values.shape[1]) for place in chosen.tolist()]


def _width(spec: ActSpec) -> int:
    """Return the number of elements of the last axis."""
    return (spec.shape or (1,))[-1]


def _beyond(
    spec: ActSpec, act: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Return values, nearer limits, and which values are beyond, each (L, elements of a row)."""
    values = act.reshape(len(act), -1).astype(np.float64)
    size = _width(spec)
    low, high = spec.low or (-np.inf,) * size, spec.high or (np.inf,) * size
    low, high = (np.tile(np.array(each), values.shape[1] // size) for each in (low, high))
    under = values < low - _ROUNDING * np.maximum(1.0, np.abs(low))
    over = values > high + _ROUNDING * np.maximum(1.0, np.abs(high))
    return values, np.where(under, low, high), under | over
