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
        examples: The violations, in order.
    """

    rows: int
    total_rows: int
    examples: tuple[LimitViolation, ...]

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
    rows, total, found = 0, 0, list[LimitViolation]()
    for episode, act in episodes:
        new = list(_beyond(spec, episode, act))
        rows, total = rows + len({each.row for each in new}), total + len(act)
        found += new
    return LimitViolations(rows, total, tuple(found))


def _beyond(spec: ActSpec, episode: int, act: NDArray[Any]) -> Iterable[LimitViolation]:
    flat = act.reshape(len(act), -1).astype(np.float64)
    low = np.array(spec.low or (-np.inf,) * flat.shape[1])
    high = np.array(spec.high or (np.inf,) * flat.shape[1])
    under = flat < low - _ROUNDING * np.maximum(1.0, np.abs(low))
    over = flat > high + _ROUNDING * np.maximum(1.0, np.abs(high))
    for row, i in np.argwhere(under | over).tolist():
        limit = float(low[i] if under[row, i] else high[i])
        unit = spec.unit_of(i)
        yield LimitViolation(episode, row, spec.element(i), float(flat[row, i]), limit, unit)
