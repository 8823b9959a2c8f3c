"""How wrong values are for other reasons than that episodes are few: learnt where truths are known.

What an estimator gets wrong where the data say little does not show in its bootstrap. Where a task
can be simulated it can be measured: by how much do the truths of some policies lie outside of the
intervals? The conformal quantile of these scores (Vovk, Gammerman & Shafer 2005; Lei, G'Sell,
Rinaldo, Tibshirani & Wasserman 2018, J. Am. Stat. Assoc. 113, section 2) widens an interval so that
it has the truth in it with the wanted probability, if the policy and its task are like those that
were measured; that they are is what nobody can promise, so it is tested on tasks left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from robo_rl.stats.intervals import Interval


def distance_outside(interval: Interval, truth: float) -> float:
    """By how much a truth is outside of an interval; below 0 if it is inside."""
    return max(interval.low - truth, truth - interval.high)


def conformal_quantile(scores: Sequence[float], confidence: float = 0.95) -> float:
    """What the next score is not above, with that probability: the ⌈(n + 1)·confidence⌉-th of n.

    Infinite where they are too few to say so.
    """
    place = math.ceil((len(scores) + 1) * confidence)
    return sorted(scores)[place - 1] if place <= len(scores) else math.inf


def widen(interval: Interval, by: float) -> Interval:
    """An interval that reaches so much further on either side."""
    return Interval(interval.low - by, interval.high + by)
