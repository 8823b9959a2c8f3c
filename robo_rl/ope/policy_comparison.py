"""Compares the estimated values of two policies: better, worse, or cannot tell.

Shapes: M resamples of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from scipy.special import stdtrit
from torch import Tensor

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
        interval: Bootstrap interval of the difference.
        margin: Difference that counts as better.
        answer: Verdict of ``compare_estimates``.
    """

    difference: float
    interval: Interval
    margin: float
    answer: OpeAnswer

    @property
    def leaning(self) -> OpeAnswer:
        """The verdict by the mean difference alone."""
        if self.difference > self.margin:
            return OpeAnswer.BETTER
        return OpeAnswer.WORSE if self.difference < 0.0 else OpeAnswer.CANNOT_TELL

    def episodes_needed(self, episodes: int) -> int | None:
        """Return the number of episodes at which the interval would decide, if it shrinks as 1/√n.

        Args:
            episodes: Number of episodes of the resamples.

        Returns:
            None if no number suffices: the difference is between 0 and the margin.
        """
        threshold = {OpeAnswer.BETTER: self.margin, OpeAnswer.WORSE: 0.0}.get(self.leaning)
        if threshold is None:
            return None
        return episodes_by_sqrt_n(episodes, self.difference, self.interval, threshold)

    def __str__(self) -> str:
        low, high = self.interval
        by = f"{self.difference:+.3f} [{low:+.3f}, {high:+.3f}], margin {self.margin:g}"
        return f"{self.answer.value}: {by}"


def compare_estimates(
    new: Tensor, old: Tensor, margin: float = 0.0, confidence: float = 0.95
) -> PolicyComparison:
    """Compare estimates (M,) of two policies on the same resamples.

    The verdict is better if the whole interval of the difference is above the margin, and worse if
    it is below 0.
    """
    interval = bootstrap_interval(new - old, confidence)
    answer = OpeAnswer.CANNOT_TELL
    if interval.low > margin:
        answer = OpeAnswer.BETTER
    elif interval.high < 0.0:
        answer = OpeAnswer.WORSE
    return PolicyComparison(float((new - old).mean()), interval, margin, answer)


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
