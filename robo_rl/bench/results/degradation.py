"""Whether a run ends below its best, and how far, without taking chance for a fall.

The best of many windows is above all a lucky one: pooled over 200 of 6,000 episodes, the best of a
run whose success never changes lies some five to nine points above its last. So that a run has
fallen is said by confidence bounds, and how far by episodes that had no say in which window was
the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from robo_rl.bench.suite.curves import Point
from robo_rl.stats.intervals import clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

ERROR = 0.01
"""Probability, at most, that a run counts as fallen that has not fallen so far."""

_SPLITS = 32


class CurveBlock(NamedTuple):
    """Neighbouring points of a curve together."""

    episodes: int
    successes: int


def curve_blocks(points: Sequence[Point], window: int) -> list[CurveBlock]:
    """The curve in blocks of at least ``window`` episodes, none in two of them.

    They are counted from the end, so that the last one is the window in which the run ended; what
    is left over at the beginning is left out.
    """
    found: list[CurveBlock] = []
    episodes = successes = 0
    for point in reversed(points):
        episodes, successes = episodes + point.episodes, successes + point.successes
        if episodes >= window:
            found.append(CurveBlock(episodes, successes))
            episodes = successes = 0
    return found[::-1]


def has_degraded(points: Sequence[Point], window: int, fall: float) -> bool:
    """Whether the last window's success is truly more than ``fall`` below an earlier stretch's.

    Stretches are of 1, 2, 4 … blocks in a row, before the last one. That block's upper bound
    (Clopper and Pearson) errs with half of ``ERROR``, the stretches' lower bounds with the other
    half all together (union bound), so that a run whose success did not fall by more than ``fall``
    counts with at most ``ERROR``, however many windows it has.
    """
    *earlier, last = curve_blocks(points, window) or [CurveBlock(0, 0)]
    if not earlier:
        return False
    stretches = list(_stretches(earlier))
    high = clopper_pearson(last.successes, last.episodes, 1.0 - ERROR).high
    confidence = 1.0 - ERROR / len(stretches)
    return any(
        each.successes > (high + fall) * each.episodes
        and clopper_pearson(each.successes, each.episodes, confidence).low > high + fall
        for each in stretches
    )


def _stretches(found: Sequence[CurveBlock]) -> Iterator[CurveBlock]:
    """All of 1, 2, 4 … blocks in a row."""
    sums = np.cumsum([(0, 0), *found], axis=0)
    for size in (2**i for i in range(len(found).bit_length())):
        for episodes, successes in (sums[size:] - sums[:-size]).tolist():
            yield CurveBlock(episodes, successes)


def degradation_depth(points: Sequence[Point], window: int) -> float:
    """How far the last block's success is below the best one's; NaN of fewer than two blocks.

    Every block's episodes are split at random into two halves: one says which block was the best,
    the other how far it lies above the last, and then the other way round. Where nothing fell the
    mean of that is 0, so of a single run it may be negative. It is averaged over several splits, of
    fixed seed.
    """
    found = np.array(curve_blocks(points, window), dtype=np.int64).reshape(-1, 2)
    if len(found) < 2:
        return math.nan
    generator = np.random.default_rng(0)
    depths = [each for _ in range(_SPLITS) for each in _two_depths(found, generator)]
    known = [each for each in depths if not math.isnan(each)]
    return sum(known) / len(known) if known else math.nan


def _two_depths(found: NDArray[np.int64], generator: np.random.Generator) -> tuple[float, float]:
    """Of one split. Which episodes succeeded is not known: any half of them is as likely."""
    episodes, successes = found.T
    size = generator.binomial(episodes, 0.5)
    good = generator.hypergeometric(successes, episodes - successes, size)
    one, other = _rates(good, size), _rates(successes - good, episodes - size)
    return _below(one, other), _below(other, one)


def _rates(successes: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """NaN of no episodes."""
    return np.where(episodes > 0, successes / np.maximum(episodes, 1), math.nan)


def _below(chooses: NDArray[np.float64], tells: NDArray[np.float64]) -> float:
    """How far the last is below the latest of those that are best in the choosing half."""
    ranks = np.nan_to_num(chooses[::-1], nan=-1.0)
    return float(tells[::-1][int(ranks.argmax())] - tells[-1])
