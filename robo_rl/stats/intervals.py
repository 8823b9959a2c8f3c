"""Confidence intervals of a success rate from a number of episodes.

``paired_tests`` compares two policies, ``across_runs`` summarises several runs. Floor 1: the
standard library; scipy only for beta quantiles.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def wilson(successes: float, n: int, confidence: float = 0.95) -> Interval:
    """Score interval of a success rate; (0, 1) for n = 0.

    Successes may be expected values, which are not whole numbers.

    Source: E. B. Wilson, Probable inference, JASA 22 (1927); Brown, Cai, DasGupta, Statistical
    Science 16 (2001), eq. 4.
    """
    _check_counts(successes, n)
    if n == 0:
        return Interval(0.0, 1.0)
    z2, p = normal_quantile(confidence) ** 2, successes / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) + z2 / (4 * n)) / n) / (1 + z2 / n)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    return Interval(low, 1.0 if successes == n else min(1.0, centre + half))


def clopper_pearson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Exact interval of a success rate, with at least the stated coverage.

    Counts may be fractions, of groups of episodes that share a start.

    Source: Clopper and Pearson, Biometrika 26 (1934), as quantiles of the beta distribution. Needs
    scipy.
    """
    from scipy.special import betaincinv

    _check_counts(successes, n)
    tail, failures = (1 - confidence) / 2, n - successes
    low = 0.0 if successes == 0 else float(betaincinv(successes, failures + 1, tail))
    high = 1.0 if failures == 0 else float(betaincinv(successes + 1, failures, 1 - tail))
    return Interval(low, high)


def normal_quantile(confidence: float) -> float:
    """Half-width of a two-sided interval in standard deviations."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def student_quantile(freedom: float, confidence: float) -> float:
    """Two-sided quantile of Student's t of so many degrees of freedom; needs scipy."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def _check_counts(successes: float, n: float) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} episodes is impossible")
