"""Power analysis: the smallest number of episodes at which an interval decides.

The observed success rates, discordant shares and spreads stay fixed, and only n grows. At the
returned n, the interval lies on one side of its threshold. The true rates may differ, so n is an
estimate. If the observed rates are the true ones, n new episodes decide in about half of the cases.
Floor 1: the standard library.

Source: ``intervals`` and ``paired_tests`` cite the intervals. Their inversion for n is the sample
size by precision of Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions (2003),
ch. 4. Each interval's own formula replaces the normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from robo_rl.stats.intervals import Interval, normal_quantile, wilson
from robo_rl.stats.paired_tests import newcombe_interval, tango_interval

MOST = 10_000_000
"""Largest number of episodes of the search."""
SMALL_DISCORDANCE = 0.05
"""Minimum share of discordant pairs in forecasts for two equally good policies.

It corresponds to two policies that each fail in 2.5 % of the episodes, in different ones.
"""


def pairs_needed(
    only_new: float, only_ref: float, n: int, margin: float, confidence: float = 0.95
) -> int | None:
    """Return the pairs at which Tango's interval for these discordant shares excludes −margin.

    Args:
        only_new: Pairs of n in which only the new policy succeeded.
        only_ref: Pairs in which only its reference did.
        n: Pairs that were observed.
        margin: Tolerated loss of the new policy.
        confidence: Of the interval.

    Returns:
        None if no number suffices: the difference equals the margin.
    """

    def interval(pairs: int) -> Interval:
        share = pairs / n
        return tango_interval(only_new * share, only_ref * share, pairs, confidence)

    return _fewest(lambda pairs: _apart(interval(pairs), -margin))


def min_pairs(margin: float, confidence: float = 0.95) -> int:
    """Return the fewest pairs that can show non-inferiority of equal policies.

    Without discordant pairs, Tango's lower limit is −z² / (n + z²). It is above −margin for n > z²
    (1 − m) / m.
    """
    z2 = normal_quantile(confidence) ** 2
    return math.floor(z2 * (1 - margin) / margin) + 1


def episodes_for_rate(rate: float, floor: float) -> int | None:
    """Return the episodes at which Wilson's interval of a rate excludes the floor."""
    return _fewest(lambda n: _apart(wilson(rate * n, n), floor))


def episodes_for_difference(rate: float, other: float) -> int | None:
    """Return the episodes of each at which Newcombe's interval of two rates excludes 0."""
    return _fewest(lambda n: _apart(newcombe_interval(rate * n, n, other * n, n), 0.0))


def episodes_by_sqrt_n(
    n: int, difference: float, interval: Interval, threshold: float
) -> int | None:
    """Return the episodes at which an interval that shrinks as 1/√n excludes a threshold.

    This holds for means and resampled estimates, with standard errors in proportion to 1/√n (Efron
    and Tibshirani 1993, ch. 6). The result is n times a squared ratio: the interval's reach towards
    the threshold over the distance to it.
    """
    distance = abs(difference - threshold)
    reach = difference - interval.low if difference > threshold else interval.high - difference
    if distance == 0 or not math.isfinite(reach):
        return None
    found = n * (reach / distance) ** 2
    return math.floor(found) + 1 if found < MOST else None


def _apart(interval: Interval, threshold: float) -> bool:
    return interval.low > threshold or interval.high < threshold


def _fewest(tells: Callable[[int], bool]) -> int | None:
    """Return the smallest n that decides, by doubling and bisection; larger n must decide too."""
    high = 1
    while not tells(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tells(middle) else (middle, high)
    return high
