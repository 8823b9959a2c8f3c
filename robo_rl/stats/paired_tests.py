"""Comparison of two policies by episodes: non-inferiority, paired if both had the same starts.

``power`` computes the number of episodes needed. Floor 1: numpy, and scipy for returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robo_rl.stats.intervals import Interval, normal_quantile, student_quantile, wilson

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Comparison(NamedTuple):
    """Comparison of a new success rate or mean return with a reference.

    Args:
        difference: New minus reference; for returns as a share of the reference.
        interval: Two-sided confidence interval of the difference.
        margin: Tolerated loss of the new policy.
    """

    difference: float
    interval: Interval
    margin: float

    @property
    def noninferior(self) -> bool:
        """Whether the whole interval is above −margin, so any loss is below the margin."""
        return self.interval.low > -self.margin

    @property
    def verdict(self) -> str:
        """``"non-inferior"``, ``"inferior"``, or ``"cannot tell"`` if −margin is inside."""
        if self.noninferior:
            return "non-inferior"
        return "inferior" if self.interval.high < -self.margin else "cannot tell"


def newcombe_interval(
    successes_new: float, n_new: int, successes_ref: float, n_ref: int, confidence: float = 0.95
) -> Interval:
    """Newcombe's interval of the difference of two rates from independent episodes.

    The hybrid score interval combines the two Wilson intervals. Successes may be expected values,
    which are not whole numbers; n_new and n_ref are at least 1.

    Source: Newcombe, Statistics in Medicine 17 (1998) 873–890, method 10.
    """
    new, ref = wilson(successes_new, n_new, confidence), wilson(successes_ref, n_ref, confidence)
    p_new, p_ref = successes_new / n_new, successes_ref / n_ref
    difference = p_new - p_ref
    low = difference - math.hypot(p_new - new.low, ref.high - p_ref)
    return Interval(low, difference + math.hypot(new.high - p_new, p_ref - ref.low))


def paired_noninferiority(
    new: ArrayLike, ref: ArrayLike, margin: float, confidence: float = 0.95
) -> Comparison:
    """Compare two success rates from the same n start states, new (n,) and ref (n,) bool.

    Tango's interval holds each difference Δ that its score test (``_tango_z``) does not reject.
    Concordant pairs count only in n, so the interval is narrower than an unpaired one.

    Source: Tango, Statistics in Medicine 17 (1998) 891–908.

    Raises:
        ValueError: The arrays differ in length or are empty.
    """
    only_new, only_ref, n = discordant(new, ref)
    interval = tango_interval(only_new, only_ref, n, confidence)
    return Comparison((only_new - only_ref) / n, interval, margin)


def tango_interval(only_new: float, only_ref: float, n: int, confidence: float = 0.95) -> Interval:
    """Tango's interval of the difference of two paired rates; see ``paired_noninferiority``.

    Discordant pairs may be expected values, which are not whole numbers.
    """
    z, difference = normal_quantile(confidence), (only_new - only_ref) / n
    low = _root(lambda delta: _tango_z(delta, only_new, only_ref, n) - z, -1.0, difference)
    high = _root(lambda delta: _tango_z(delta, only_new, only_ref, n) + z, difference, 1.0)
    return Interval(low, high)


def paired_change(
    new: ArrayLike,
    ref: ArrayLike,
    margin: float,
    confidence: float = 0.95,
    *,
    reps: int = 2000,
    generator: np.random.Generator | int = 0,
) -> Comparison:
    """Compare two mean returns from the same n start states, new (n,) and ref (n,).

    The difference, its interval and the margin are shares of the reference's absolute mean. Pairs
    are drawn with replacement, and each draw recomputes the share. The interval therefore includes
    the uncertainty of the reference. If the reference's mean may be 0, the interval is too wide to
    decide. For one pair it is infinite.

    Each end is the wider one of two: the percentile of the draws, and Student's with the standard
    error of the linearised share. Percentiles of few pairs lie within the observed differences, so
    that alone they would find one of two equal policies better in a quarter of the comparisons of
    two pairs. Both are 0 wide if all pairs tie, as where returns saturate. The interval is then
    Tango's without a discordant pair: a loss of the whole return in as many episodes as n pairs may
    leave out is a loss of the same share.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), §13.3, the percentile
    interval, and §12.2, Student's; Oehlert, A Note on the Delta Method, The American Statistician
    46 (1992). Needs scipy.

    Raises:
        ValueError: The arrays differ in length or are empty.
    """
    x, y = np.asarray(new, dtype=np.float64), np.asarray(ref, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) == 0:
        raise ValueError(f"expected two arrays (n,) of the same n ≥ 1, found {x.shape}, {y.shape}")
    if (n := len(x)) == 1:
        return Comparison(_change(x, y), Interval(-math.inf, math.inf), margin)
    rng = np.random.default_rng(generator)
    picks = (rng.integers(n, size=n) for _ in range(reps))
    drawn, tail = [_change(x[pick], y[pick]) for pick in picks], (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    change = _change(x, y)
    half = student_quantile(n - 1, confidence) * _change_error(x, y, change)
    interval = Interval(min(float(low), change - half), max(float(high), change + half))
    if np.array_equal(x, y):
        interval = tango_interval(0, 0, n, confidence)
    return Comparison(change, interval, margin)


def _change(new: NDArray[Any], ref: NDArray[Any]) -> float:
    """Difference of the means as a share of the reference; large but finite for a mean of 0."""
    return float((new.mean() - ref.mean()) / _size(ref))


def _size(ref: NDArray[Any]) -> float:
    """Absolute mean, at least the root of the smallest number."""
    return max(abs(float(ref.mean())), float(np.finfo(np.float64).tiny) ** 0.5)


def _change_error(new: NDArray[Any], ref: NDArray[Any], change: float) -> float:
    """Standard error of ``_change`` to first order.

    With r = (x̄ − ȳ)/|ȳ|, each pair adds (x − (1 + r·sgn ȳ)·y)/|ȳ| to n·r. Draws are no measure of
    it: a single draw whose reference has a mean of 0 decides their standard deviation.
    """
    factor = 1.0 + change * math.copysign(1.0, ref.mean())
    with np.errstate(over="ignore", invalid="ignore"):  # a mean of 0: too wide to decide
        spread = float(np.std(new - factor * ref, ddof=1)) / math.sqrt(len(new))
        return spread / _size(ref)


def discordant(new: ArrayLike, ref: ArrayLike) -> tuple[int, int, int]:
    """Return the pairs with success of only new, of only ref, and n.

    Raises:
        ValueError: The arrays differ in length or are empty.
    """
    a, b = np.asarray(new, dtype=bool), np.asarray(ref, dtype=bool)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise ValueError(f"expected two arrays (n,) of the same n ≥ 1, found {a.shape}, {b.shape}")
    return int((a & ~b).sum()), int((b & ~a).sum()), len(a)


def _tango_z(delta: float, only_new: float, only_ref: float, n: int) -> float:
    """Score statistic of H0: difference = delta; decreases with delta.

    (b − c − nΔ) / √(n (2q + Δ(1 − Δ))), q the maximum-likelihood rate of c under H0: the larger
    root of 2n q² + (−b − c + (2n − b + c)Δ) q − cΔ(1 − Δ) = 0.
    """
    linear = -only_new - only_ref + (2 * n - only_new + only_ref) * delta
    constant = -only_ref * delta * (1 - delta)
    q = (math.sqrt(max(0.0, linear**2 - 8 * n * constant)) - linear) / (4 * n)
    spread = n * (2 * q + delta * (1 - delta))
    distance = only_new - only_ref - n * delta
    if spread <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(spread)


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a decreasing function, by 60 bisections."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2
