"""Whether a run ends below its best, and by how much, with control of selection bias.

The best of many windows is biased upwards: pooled over 200 of 6,000 episodes, the best window of a
run with constant success lies five to nine points above its last. So confidence bounds decide
whether a run has degraded. The depth is measured on episodes that did not select the best window.
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
"""Bound of the probability that a run without degradation counts as degraded."""

_SPLITS = 32


class CurveBlock(NamedTuple):
    """Adjacent points of a curve, merged."""

    episodes: int
    successes: int


def curve_blocks(points: Sequence[Point], window: int) -> list[CurveBlock]:
    """Split the curve into disjoint blocks of at least ``window`` episodes.

    Blocks are counted from the end, so that the last one is the final window. The remainder at the
    beginning is left out.
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
    """Return whether success ends significantly more than ``fall`` below an earlier stretch.

    Stretches of 1, 2, 4 … consecutive blocks before the last one are tested. The last block's upper
    bound (Clopper and Pearson) errs with half of ``ERROR``. The stretches' lower bounds err with
    the other half in total (union bound). So a run whose success did not drop by more than ``fall``
    counts with probability at most ``ERROR``, for any number of windows.
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
    """Yield all stretches of 1, 2, 4 … consecutive blocks."""
    sums = np.cumsum([(0, 0), *found], axis=0)
    for size in (2**i for i in range(len(found).bit_length())):
        for episodes, successes in (sums[size:] - sums[:-size]).tolist():
            yield CurveBlock(episodes, successes)


def degradation_depth(points: Sequence[Point], window: int) -> float:
    """Return how far the last block is below the best one; NaN for fewer than two blocks.

    Each block's episodes are split at random into two halves. One half selects the best block, the
    other measures its distance from the last, and vice versa. Without degradation the expectation
    is 0, so a single run may have a negative depth. The result is averaged over splits with a fixed
    seed.
    """
    found = np.array(curve_blocks(points, window), dtype=np.int64).reshape(-1, 2)
    if len(found) < 2:
        return math.nan
    generator = np.random.default_rng(0)
    depths = [each for _ in range(_SPLITS) for each in _two_depths(found, generator)]
    known = [each for each in depths if not math.isnan(each)]
    return sum(known) / len(known) if known else math.nan


def _two_depths(found: NDArray[np.int64], generator: np.random.Generator) -> tuple[float, float]:
    """Return both depths of one random split, in which successes are distributed at random."""
    episodes, successes = found.T
    size = generator.binomial(episodes, 0.5)
    good = generator.hypergeometric(successes, episodes - successes, size)
    one, other = _rates(good, size), _rates(successes - good, episodes - size)
    return _below(one, other), _below(other, one)


def _rates(successes: NDArray[np.int64], episodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the success rates; NaN for blocks without episodes."""
    return np.where(episodes > 0, successes / np.maximum(episodes, 1), math.nan)


def _below(chooses: NDArray[np.float64], tells: NDArray[np.float64]) -> float:
    """Return how far the last block is below the latest best block of ``chooses``."""
    ranks = np.nan_to_num(chooses[::-1], nan=-1.0)
    return float(tells[::-1][int(ranks.argmax())] - tells[-1])
