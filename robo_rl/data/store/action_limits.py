"""Actions outside the limits that their spec declares: which rows, and how far.

Shapes: L steps of an episode, A act_dim.

Such an action is data that was recorded, no damage: an env or a robot clips it. But it may be a
fault of a sensor or of a unit, and a single one decides what a network takes for 1 if actions are
normalised by their range.
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
        episode: Its place in the dataset; row: its row in the episode.
        row: See ``episode``.
        name: Of the action.
        value: What it is; limit: the one that it is beyond.
        limit: See ``value``.
        unit: Of both, behind a space; empty for none.
    """

    episode: int
    row: int
    name: str
    value: float
    limit: float
    unit: str

    @property
    def excess(self) -> float:
        """How far beyond, in its unit."""
        return abs(self.value - self.limit)

    def __str__(self) -> str:
        value, limit = f"{self.value:.6g}{self.unit}", f"{self.limit:.6g}{self.unit}"
        return f"episode {self.episode}, row {self.row}: '{self.name}' is {value}, limit {limit}"


class LimitViolations(NamedTuple):
    """All of a dataset.

    Args:
        rows: How many rows hold such an action; of: of how many.
        total_rows: See ``rows``.
        examples: The actions, in order.
    """

    rows: int
    total_rows: int
    examples: tuple[LimitViolation, ...]

    @property
    def worst(self) -> LimitViolation:
        """The one that is farthest beyond its limit; there is one where ``rows`` is not 0."""
        return max(self.examples, key=lambda each: each.excess)

    def __str__(self) -> str:
        """How many, and the farthest."""
        where = f"in {self.rows} of {self.total_rows} rows"
        return f"actions outside their limits {where}, the farthest in {self.worst}"


def find_limit_violations(
    spec: ActSpec, episodes: Iterable[tuple[int, NDArray[Any]]]
) -> LimitViolations:
    """Look for actions outside the limits of ``spec``, but for rounding.

    Args:
        spec: Says the limits; without them nothing is outside.
        episodes: Number and actions (L, A) of each.
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
