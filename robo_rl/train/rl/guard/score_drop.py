"""Change-point test on the training score, at every time scale, with a bounded false-alarm rate.

Few episodes give a noisy score: a block of 30 at a success rate of 90 % lies below 80 % about once
in twenty. So episodes are gathered in cells of about a hundred. Windows of the last 1, 2, 4, 8 …
cells each get a lower and an upper confidence bound. The score has dropped when the upper bound of
a window lies below the highest lower bound of all windows before it. A collapse shows in a single
cell; a drop of a few points needs several cells.

Each bound of one cell errs with probability a, each bound of L cells with a·√L. The false-alarm
probability is at most the sum of these over all windows, whatever the score did before (union
bound). Of episodes that share a start a group counts once (``confidence_bounds``). Windows
overlap, so simulated rates are far lower. At a = 3e-6 and cells of 100 episodes, 6,000 runs at a
constant success rate were simulated. Of these, 0.05 % raised a false alarm within 300 cells and
0.7 % within 1,000. A drop from 90 % by 20, 10 or 5 points after 3,000 good episodes
was detected within 2, 5 or 32 cells (medians).
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
"""Fraction of a cell's returns that is trimmed at either end, to limit the effect of outliers."""

SAME = 5e-3
"""Least relative standard error of a mean return.

A drop below about 5 % within a cell, or below 2 % over many cells, is therefore never reported.
Without this floor any change would be significant where episodes hardly differ.
"""


class EpisodeStats(NamedTuple):
    """Statistics of a number of episodes, which can be added.

    Args:
        episodes: Number of episodes.
        total: Number of successes, or episodes times their (trimmed) mean return.
        spread: Variance of the total; unused for successes, whose number implies it.
    """

    episodes: int
    total: float
    spread: float

    def plus(self, other: EpisodeStats) -> EpisodeStats:
        """Return the statistics of both sets of episodes together."""
        return EpisodeStats(
            self.episodes + other.episodes, self.total + other.total, self.spread + other.spread
        )

    def minus(self, other: EpisodeStats) -> EpisodeStats:
        """Return the statistics without those of a subset."""
        return self.plus(EpisodeStats(-other.episodes, -other.total, -other.spread))

    @property
    def mean(self) -> float:
        """The success rate or mean return."""
        return self.total / self.episodes


def success_stats(success: Tensor) -> EpisodeStats:
    """Return the statistics of success (E,) bool."""
    return EpisodeStats(len(success), float(success.sum()), 0.0)


def return_stats(returns: Tensor) -> EpisodeStats:
    """Return the statistics of returns (E,): trimmed mean and its variance; empty for one return.

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


def confidence_bounds(
    tally: EpisodeStats, level: float, *, binary: bool, group_size: int = 1
) -> Interval:
    """Return the lower and upper bound of the score, each missed with probability ``level``.

    Exact for successes (Clopper and Pearson); normal for returns. Of episodes that share a start in
    groups, a group counts as one. That is right if its episodes all agree, and else the bounds are
    too wide.
    """
    if binary:
        won, of = round(tally.total) / group_size, tally.episodes / group_size
        return clopper_pearson(won, of, 1.0 - 2.0 * level)
    error = math.sqrt(group_size * tally.spread) / tally.episodes
    error = max(error, SAME * abs(tally.mean))
    half = NormalDist().inv_cdf(1.0 - level) * error
    return Interval(tally.mean - half, tally.mean + half)


class ScoreDropDetector(Stateful):
    """Tests a sequence of cells for a drop of the score.

    Args:
        level: a, the error probability of a bound of one cell.
        group_size: Number of episodes that share a start.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("binary", "table")

    def __init__(self, level: float, group_size: int = 1) -> None:
        self.level, self.group_size = level, group_size
        self.binary = False
        self.restart()

    def restart(self, *, binary: bool = False, best: float = -math.inf) -> None:
        """Start again with successes or returns; ``best`` is a score known to be reached."""
        self.binary = binary
        # sums over the first 0, 1, 2 … cells; bests are the highest lower bounds of windows so far
        self.sums, self.bests = [EpisodeStats(0, 0.0, 0.0)], [best]

    def update(self, cell: EpisodeStats) -> bool:
        """Add a cell; return whether the score has dropped."""
        self.sums.append(self.sums[-1].plus(cell))
        sizes = [2**i for i in range(self.cells.bit_length())]
        found = [self._bounds(size) for size in sizes]
        self.bests.append(max(self.bests[-1], *(each.low for each in found)))
        before = [self.bests[-1 - size] for size in sizes]
        return any(each.high < best for each, best in zip(found, before, strict=True))

    @property
    def cells(self) -> int:
        """The number of cells so far."""
        return len(self.sums) - 1

    def latest(self, cells: int) -> EpisodeStats:
        """Return the statistics of the last ``cells`` cells, or of all if there are fewer."""
        return self.sums[-1].minus(self.sums[-1 - min(cells, self.cells)])

    def _bounds(self, cells: int) -> Interval:
        level = min(self.level * math.sqrt(cells), 0.01)
        return self.bounds_of(self.latest(cells), level)

    def bounds_of(self, tally: EpisodeStats, level: float) -> Interval:
        """Return the bounds of a score of these episodes; see ``confidence_bounds``."""
        return confidence_bounds(tally, level, binary=self.binary, group_size=self.group_size)

    @property
    def table(self) -> torch.Tensor:
        """(cells + 1, 4) float64, the columns of ``sums``, and ``bests``."""
        columns = [[*each, best] for each, best in zip(self.sums, self.bests, strict=True)]
        return torch.tensor(columns, dtype=torch.float64)

    @table.setter
    def table(self, table: torch.Tensor) -> None:
        rows = table.tolist()
        self.bests = [row[3] for row in rows]
        self.sums = [EpisodeStats(int(row[0]), row[1], row[2]) for row in rows]
