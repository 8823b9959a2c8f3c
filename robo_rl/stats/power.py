"""How many episodes would tell: the smallest n at which the same rates' interval decides.

What was observed is held fixed (success rates, discordant shares, spreads) and n alone grows. The
interval of n episodes with those very rates then lies on one side of what it is compared with. The
truth may differ from what was observed, so n is an estimate: where the rates are the true ones, n
new episodes decide in about half of the cases. Floor 1: the standard library.

Source: of the intervals see ``stats`` and ``comparisons``; their inversion for n is the sample size
    by precision of Fleiss, Levin and Paik, Statistical Methods for Rates and Proportions (2003),
    ch. 4, with each interval's own formula in the place of the normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from robo_rl.stats.intervals import Interval, normal_quantile, wilson
from robo_rl.stats.paired_tests import newcombe_interval, tango_interval

MOST = 10_000_000
"""More than these nobody runs."""
SMALL_DISCORDANCE = 0.05
"""Share of the pairs in which two equally good policies differ at the least, for what is foretold:
two that fail in 2.5 % of the episodes each, in others each."""


def pairs_needed(only_new: float, only_ref: float, n: int, margin: float) -> int | None:
    """Pairs at which Tango's interval of these discordant shares clears −margin, on either side.

    Args:
        only_new: Pairs of n in which only the new policy succeeded.
        only_ref: Pairs in which only its reference did.
        n: Pairs that were observed.
        margin: How much worse the new one may be.

    Returns:
        None where no number does: the difference is the margin itself.
    """

    def interval(pairs: int) -> Interval:
        share = pairs / n
        return tango_interval(only_new * share, only_ref * share, pairs)

    return _fewest(lambda pairs: _apart(interval(pairs), -margin))


def min_pairs(margin: float, confidence: float = 0.95) -> int:
    """Pairs below which nothing passes but what is better: none of them is discordant.

    Tango's lower limit is then −z² / (n + z²), which is above −margin for n > z² (1 − m) / m.
    """
    z2 = normal_quantile(confidence) ** 2
    return math.floor(z2 * (1 - margin) / margin) + 1


def episodes_for_rate(rate: float, floor: float) -> int | None:
    """Episodes at which Wilson's interval of a rate lies above a floor, or below it."""
    return _fewest(lambda n: _apart(wilson(rate * n, n), floor))


def episodes_for_difference(rate: float, other: float) -> int | None:
    """Episodes of each at which Newcombe's interval of two rates' difference leaves 0 out."""
    return _fewest(lambda n: _apart(newcombe_interval(rate * n, n, other * n, n), 0.0))


def episodes_by_sqrt_n(
    n: int, difference: float, interval: Interval, threshold: float
) -> int | None:
    """Episodes at which an interval that shrinks as 1/√n leaves a threshold out.

    For means and resampled estimates, whose standard error falls so (Efron and Tibshirani 1993,
    ch. 6): n times the square of how far the interval reaches towards the threshold, in units of
    the distance to it.
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
    """The smallest n that tells, by doubling and bisection; one that tells is followed by such."""
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
