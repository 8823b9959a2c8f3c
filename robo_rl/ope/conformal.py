"""Conformal correction of OPE intervals, learnt from tasks with known true values.

A bootstrap does not show errors of an estimator where the data have little coverage. For simulated
tasks this error can be measured: the distance of true values outside the estimated intervals. The
conformal quantile of these distances widens an interval so that it covers the truth with the
required probability. Sources: Vovk, Gammerman & Shafer 2005; Lei, G'Sell, Rinaldo, Tibshirani &
Wasserman 2018, J. Am. Stat. Assoc. 113, section 2.

The guarantee assumes that policy and task are exchangeable with the measured ones. This cannot be
verified, so the correction is tested on held-out tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from robo_rl.stats.intervals import Interval


def distance_outside(interval: Interval, truth: float) -> float:
    """Distance of a true value outside an interval; negative inside."""
    return max(interval.low - truth, truth - interval.high)


def conformal_quantile(scores: Sequence[float], confidence: float = 0.95) -> float:
    """Upper bound of the next score with this probability: the ⌈(n + 1)·confidence⌉-th of n.

    It is infinite if there are too few scores.
    """
    place = math.ceil((len(scores) + 1) * confidence)
    return sorted(scores)[place - 1] if place <= len(scores) else math.inf


def widen(interval: Interval, by: float) -> Interval:
    """Extend an interval by a distance on both sides."""
    return Interval(interval.low - by, interval.high + by)
