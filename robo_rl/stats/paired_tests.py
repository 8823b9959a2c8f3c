"""What episodes prove of two policies: non-inferiority, paired where both met the same starts.

How many episodes would tell is in ``power``. Floor 1: numpy and the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robo_rl.stats.intervals import Interval, normal_quantile, wilson

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Comparison(NamedTuple):
    """A new success rate, or mean return, beside a reference's.

    Args:
        difference: New minus reference; of returns, as a share of the reference.
        interval: Two-sided confidence interval of the difference.
        margin: How much worse the new one may be.
    """

    difference: float
    interval: Interval
    margin: float

    @property
    def noninferior(self) -> bool:
        """The whole interval lies above −margin: the loss, if any, is smaller than the margin."""
        return self.interval.low > -self.margin

    @property
    def verdict(self) -> str:
        """``"non-inferior"``, ``"inferior"``, or ``"cannot tell"``: the interval holds −margin."""
        if self.noninferior:
            return "non-inferior"
        return "inferior" if self.interval.high < -self.margin else "cannot tell"


def newcombe_interval(
    successes_new: float, n_new: int, successes_ref: float, n_ref: int, confidence: float = 0.95
) -> Interval:
    """Newcombe's interval of the difference of two rates from independent episodes.

    The hybrid score interval puts the two Wilson intervals together. Successes may be expected
    ones, which are no whole numbers; n_new and n_ref are at least 1.

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

    Tango's interval holds each difference Δ whose score test (``_tango_z``) does not reject; pairs
    that agree count only in n, which is why it is narrower than an unpaired one.

    Source: Tango, Statistics in Medicine 17 (1998) 891–908.

    Raises:
        ValueError: The arrays differ in length or are empty.
    """
    only_new, only_ref, n = discordant(new, ref)
    interval = tango_interval(only_new, only_ref, n, confidence)
    return Comparison((only_new - only_ref) / n, interval, margin)


def tango_interval(only_new: float, only_ref: float, n: int, confidence: float = 0.95) -> Interval:
    """Tango's interval of the difference of two paired rates; see ``paired_noninferiority``.

    Discordant pairs may be expected ones, which are no whole numbers.
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

    The difference, its interval and the margin are shares of the reference's mean: the mean of new
    less that of ref, by the magnitude of the latter. Pairs are drawn with replacement and the share
    is computed anew from each draw, so the interval holds what is not known of the reference too;
    where its mean may be 0 it is so wide that nothing is shown, and of one pair it is infinite.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), §13.3, the percentile
        interval.

    Raises:
        ValueError: The arrays differ in length or are empty.
    """
    x, y = np.asarray(new, dtype=np.float64), np.asarray(ref, dtype=np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) == 0:
        raise ValueError(f"expected two arrays (n,) of the same n ≥ 1, found {x.shape}, {y.shape}")
    if len(x) == 1:
        return Comparison(_change(x, y), Interval(-math.inf, math.inf), margin)
    rng = np.random.default_rng(generator)
    picks = (rng.integers(len(x), size=len(x)) for _ in range(reps))
    tail = (1 - confidence) / 2
    low, high = np.quantile([_change(x[pick], y[pick]) for pick in picks], [tail, 1 - tail])
    return Comparison(_change(x, y), Interval(float(low), float(high)), margin)


def _change(new: NDArray[Any], ref: NDArray[Any]) -> float:
    """Difference of the means as a share of the reference: huge, not infinite, where that is 0."""
    tiny = float(np.finfo(np.float64).tiny) ** 0.5
    return float((new.mean() - ref.mean()) / max(abs(ref.mean()), tiny))


def discordant(new: ArrayLike, ref: ArrayLike) -> tuple[int, int, int]:
    """Pairs in which only new and only ref succeeded, and n.

    Raises:
        ValueError: The arrays differ in length or are empty.
    """
    a, b = np.asarray(new, dtype=bool), np.asarray(ref, dtype=bool)
    if a.shape != b.shape or a.ndim != 1 or len(a) == 0:
        raise ValueError(f"expected two arrays (n,) of the same n ≥ 1, found {a.shape}, {b.shape}")
    return int((a & ~b).sum()), int((b & ~a).sum()), len(a)


def _tango_z(delta: float, only_new: float, only_ref: float, n: int) -> float:
    """Score statistic of H0: difference = delta; falls as delta grows.

    (b − c − nΔ) / √(n (2q + Δ(1 − Δ))), q the rate of c that is most likely under H0: the larger
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
    """Where a falling function crosses 0, by bisection to the last bit that matters here."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2
