"""Compares the estimated values of two policies: better, worse, or cannot tell.

Shapes: M resamples of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from scipy.special import stdtrit
from torch import Tensor

from robo_rl.ope.conformal import widen
from robo_rl.stats.intervals import Interval
from robo_rl.stats.power import episodes_by_sqrt_n


class OpeAnswer(str, Enum):
    """Verdict on a policy compared with another."""

    BETTER = "better"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


class PolicyComparison(NamedTuple):
    """Estimated difference of two policies.

    Args:
        difference: Mean over the resamples.
        interval: Bootstrap interval of the difference, widened by ``error`` on either side.
        margin: Difference that counts as better.
        answer: Verdict of ``compare_estimates``.
        error: Error of the difference that resampling does not show.
    """

    difference: float
    interval: Interval
    margin: float
    answer: OpeAnswer
    error: float = 0.0

    @property
    def leaning(self) -> OpeAnswer:
        """The verdict if the bootstrap interval had no width."""
        if self.difference > self.margin + self.error:
            return OpeAnswer.BETTER
        return OpeAnswer.WORSE if self.difference < -self.error else OpeAnswer.CANNOT_TELL

    def episodes_needed(self, episodes: int) -> int | None:
        """Return the number of episodes at which the interval would decide.

        The bootstrap interval is assumed to shrink as 1/√n; ``error`` stays.

        Args:
            episodes: Number of episodes of the resamples.

        Returns:
            None if no number suffices: the difference is between −error and margin + error.
        """
        limits = {OpeAnswer.BETTER: self.margin + self.error, OpeAnswer.WORSE: -self.error}
        if self.leaning not in limits:
            return None
        bootstrap = widen(self.interval, -self.error)
        return episodes_by_sqrt_n(episodes, self.difference, bootstrap, limits[self.leaning])

    def __str__(self) -> str:
        low, high = self.interval
        by = f"{self.difference:+.3f} [{low:+.3f}, {high:+.3f}], margin {self.margin:g}"
        return f"{self.answer.value}: {by}"


def compare_estimates(
    new: Tensor, old: Tensor, margin: float = 0.0, error: float = 0.0, confidence: float = 0.95
) -> PolicyComparison:
    """Compare estimates (M,) of two policies on the same resamples.

    The verdict is better if the whole interval of the difference is above the margin, and worse if
    it is below 0. A bootstrap interval shows the variance of a difference and not its bias: values
    of two policies that the data cover unequally are wrong by unequal amounts. ``error`` widens the
    interval for it.
    """
    interval = widen(bootstrap_interval(new - old, confidence), error)
    answer = OpeAnswer.CANNOT_TELL
    if interval.low > margin:
        answer = OpeAnswer.BETTER
    elif interval.high < 0.0:
        answer = OpeAnswer.WORSE
    return PolicyComparison(float((new - old).mean()), interval, margin, answer, error)


def unanimous(answers: Sequence[OpeAnswer]) -> OpeAnswer:
    """Return the common verdict, or ``cannot tell`` if verdicts differ."""
    return answers[0] if len(set(answers)) == 1 else OpeAnswer.CANNOT_TELL


def bootstrap_interval(members: Tensor, confidence: float = 0.95) -> Interval:
    """Confidence interval of an estimate from its values (M,) on resamples of the data.

    Their standard deviation is the standard error of the estimate (Efron 1979). Student's t with M
    − 1 degrees of freedom accounts for few resamples.
    """
    number = len(members)
    reach = float(stdtrit(number - 1, (1.0 + confidence) / 2.0) * members.double().std())
    centre = float(members.double().mean())
    return Interval(centre - reach, centre + reach)


def hull(intervals: Sequence[Interval]) -> Interval:
    """Return the smallest interval that holds all intervals."""
    return Interval(min(each.low for each in intervals), max(each.high for each in intervals))


def clip_interval(interval: Interval, bounds: Interval) -> Interval:
    """Clip an interval to bounds; if they are disjoint, return the nearer bound."""
    low, high = (min(max(end, bounds.low), bounds.high) for end in interval)
    return Interval(low, high)
