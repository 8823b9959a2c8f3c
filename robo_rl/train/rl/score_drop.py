"""Whether a training score has truly fallen: a test at every time scale that seldom cries wolf.

Episodes are few and their outcomes chance: a block of 30 at a success rate of 90 % lies below
80 % about once in twenty. So evidence is gathered in cells of some hundred episodes, and windows
of the last 1, 2, 4, 8 … cells each get a lower and an upper confidence bound. The score has fallen
when one window's upper bound lies below the highest lower bound that any window had before it: a
collapse shows in a single cell, a fall of a few points in as many as it takes.

Where each bound errs with probability a, one of L cells with a·√L, a fall is wrongly seen with at
most the sum of these over all windows, whatever the score did before (union bound); windows
overlap, and simulation gives far less. At a = 3e-6 and cells of 100 episodes, of 6,000 runs at a
constant success rate 0.05 % cried wolf within 300 cells and 0.7 % within 1,000; a fall from 90 % by
20, 10 or 5 points after 3,000 good episodes was seen within 2, 5 or 32 cells (medians).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from robo_rl.core.stateful import Stateful
from robo_rl.stats.intervals import Interval, clopper_pearson

TRIM = 0.1
"""Share of a cell's returns that is cut at either end, so that a few wild ones say nothing."""

SAME = 5e-3
"""Least relative error of a mean return, so that a fall of less than some 5 % within a cell, or of
2 % for long, is none, however sure: where episodes hardly differ, everything else would be."""


class EpisodeStats(NamedTuple):
    """What a number of episodes showed; tallies add up.

    Args:
        episodes: Their number.
        total: Successes, or episodes times their (trimmed) mean return.
        spread: Variance of the total; unused for successes, whose number implies it.
    """

    episodes: int
    total: float
    spread: float

    def plus(self, other: EpisodeStats) -> EpisodeStats:
        """Both together."""
        return EpisodeStats(
            self.episodes + other.episodes, self.total + other.total, self.spread + other.spread
        )

    def minus(self, other: EpisodeStats) -> EpisodeStats:
        """Without a part of it."""
        return self.plus(EpisodeStats(-other.episodes, -other.total, -other.spread))

    @property
    def mean(self) -> float:
        """Success rate or mean return."""
        return self.total / self.episodes


def success_stats(success: Tensor) -> EpisodeStats:
    """Of success (E,) bool."""
    return EpisodeStats(len(success), float(success.sum()), 0.0)


def return_stats(returns: Tensor) -> EpisodeStats:
    """Of returns (E,), by their trimmed mean and its variance; one alone tells nothing.

    The variance is that of the winsorised values:
    s_w²·(n−1) / (h·(h−1)) with h of n values left (Yuen 1974, Biometrika 61, 165–170).
    """
    n = len(returns)
    if n < 2:
        return EpisodeStats(0, 0.0, 0.0)
    cut = int(TRIM * n)
    ordered = returns.double().sort().values
    kept = ordered[cut : n - cut]
    squares = (ordered.clamp(kept[0], kept[-1]) - ordered.clamp(kept[0], kept[-1]).mean()).square()
    left = len(kept)
    variance = float(squares.sum()) / (left * (left - 1))
    return EpisodeStats(n, n * float(kept.mean()), n * n * variance)


def confidence_bounds(tally: EpisodeStats, level: float, *, binary: bool) -> Interval:
    """Lower and upper bound of the score, each missed with probability ``level``.

    Exact for successes (Clopper and Pearson); normal for returns.
    """
    if binary:
        return clopper_pearson(round(tally.total), tally.episodes, 1.0 - 2.0 * level)
    error = max(math.sqrt(tally.spread) / tally.episodes, SAME * abs(tally.mean))
    half = NormalDist().inv_cdf(1.0 - level) * error
    return Interval(tally.mean - half, tally.mean + half)


class ScoreDropDetector(Stateful):
    """Watches cells for a fall of the score.

    Args:
        level: a, the error of a bound of one cell.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("binary", "table")

    def __init__(self, level: float) -> None:
        self.level = level
        self.binary = False
        self.restart()

    def restart(self, *, binary: bool = False, best: float = -math.inf) -> None:
        """Begin anew, with successes or returns, against a score that is known to be reached."""
        self.binary = binary
        # both over the first 0, 1, 2 … cells; bests are the highest lower bounds of windows
        self.sums, self.bests = [EpisodeStats(0, 0.0, 0.0)], [best]

    def update(self, cell: EpisodeStats) -> bool:
        """Take in a cell; whether the score has fallen."""
        self.sums.append(self.sums[-1].plus(cell))
        sizes = [2**i for i in range(self.cells.bit_length())]
        found = [self._bounds(size) for size in sizes]
        self.bests.append(max(self.bests[-1], *(each.low for each in found)))
        before = [self.bests[-1 - size] for size in sizes]
        return any(each.high < best for each, best in zip(found, before, strict=True))

    @property
    def cells(self) -> int:
        """How many were taken in."""
        return len(self.sums) - 1

    def latest(self, cells: int) -> EpisodeStats:
        """The last so many cells together, or all there are."""
        return self.sums[-1].minus(self.sums[-1 - min(cells, self.cells)])

    def _bounds(self, cells: int) -> Interval:
        level = min(self.level * math.sqrt(cells), 0.01)
        return confidence_bounds(self.latest(cells), level, binary=self.binary)

    @property
    def table(self) -> torch.Tensor:
        """(cells + 1, 4) the columns of ``sums``, and ``bests``."""
        columns = [[*each, best] for each, best in zip(self.sums, self.bests, strict=True)]
        return torch.tensor(columns, dtype=torch.float64)

    @table.setter
    def table(self, table: torch.Tensor) -> None:
        rows = table.tolist()
        self.bests = [row[3] for row in rows]
        self.sums = [EpisodeStats(int(row[0]), row[1], row[2]) for row in rows]
