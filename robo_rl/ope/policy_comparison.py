"""Better, worse, or not to be told: what estimates of two policies amount to.

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
    """Of one policy beside another."""

    BETTER = "better"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


class PolicyComparison(NamedTuple):
    """By how much one policy is estimated to be above another.

    Args:
        difference: Mean over the resamples.
        interval: The bootstrap's.
        margin: By how much a policy has to be above to count as better.
        answer: See ``judge``.
    """

    difference: float
    interval: Interval
    margin: float
    answer: OpeAnswer

    @property
    def leaning(self) -> OpeAnswer:
        """What the mean by itself says."""
        if self.difference > self.margin:
            return OpeAnswer.BETTER
        return OpeAnswer.WORSE if self.difference < 0.0 else OpeAnswer.CANNOT_TELL

    def episodes_needed(self, episodes: int) -> int | None:
        """Episodes at which an interval that shrinks as their root would tell what it leans to.

        Args:
            episodes: Of which the resamples were drawn.

        Returns:
            None where none would: the difference is between 0 and the margin.
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
    """Estimates (M,) of two policies on the same resamples.

    Better if the whole interval of the difference is above the margin, worse if it is below 0.
    """
    interval = bootstrap_interval(new - old, confidence)
    answer = OpeAnswer.CANNOT_TELL
    if interval.low > margin:
        answer = OpeAnswer.BETTER
    elif interval.high < 0.0:
        answer = OpeAnswer.WORSE
    return PolicyComparison(float((new - old).mean()), interval, margin, answer)


def unanimous(answers: Sequence[OpeAnswer]) -> OpeAnswer:
    """What all of them say, or that it cannot be told."""
    return answers[0] if len(set(answers)) == 1 else OpeAnswer.CANNOT_TELL


def bootstrap_interval(members: Tensor, confidence: float = 0.95) -> Interval:
    """Of an estimate of which resamples of the data gave these (M,).

    Their standard deviation is the estimate's standard error (Efron 1979); that it comes of few of
    them is Student's t with M − 1 degrees of freedom.
    """
    number = len(members)
    reach = float(stdtrit(number - 1, (1.0 + confidence) / 2.0) * members.double().std())
    centre = float(members.double().mean())
    return Interval(centre - reach, centre + reach)


def hull(intervals: Sequence[Interval]) -> Interval:
    """From the lowest to the highest of them: it has the truth in it if any of them has."""
    return Interval(min(each.low for each in intervals), max(each.high for each in intervals))


def clip_interval(interval: Interval, bounds: Interval) -> Interval:
    """What of an interval lies within bounds of what is possible; of none, the nearer bound."""
    low, high = (min(max(end, bounds.low), bounds.high) for end in interval)
    return Interval(low, high)
