"""Compares the success of the first training episodes with that of the policy without noise."""

from __future__ import annotations

from typing import ClassVar

from robo_rl.core.stateful import Stateful
from robo_rl.stats.intervals import Interval, wilson
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes

EPISODES = 100
SHARE = 0.5
DONE = {"good": 0, "count": EPISODES}
"""State of a check that has answered."""


class ExplorationCheck(Stateful):
    """Checks the cost of exploration noise once, on the first hundred training episodes.

    A precise policy may fail under little noise. Then no episode succeeds during exploration, and
    training has hardly any signal. The trained policy then evaluates worse than the initial one.

    Args:
        context: Context of the stage, with the report of the stage that made the policy.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("good", "count")

    def __init__(self, context: Context) -> None:
        self._able = _success(context)
        self.good = self.count = 0

    def observe(self, outcomes: EpisodeOutcomes) -> str | None:
        """Add finished episodes; return a warning, once, if exploration more than halves success.

        The criterion: the upper end of the 95 % interval under exploration is below half of the
        lower end of the interval without noise.
        """
        able = self._able
        if able is None or self.count >= EPISODES:
            return None
        self.good += int(outcomes.success.sum())
        self.count += len(outcomes.success)
        if self.count < EPISODES or wilson(self.good, self.count).high >= SHARE * able.low:
            return None
        return (
            f"exploring, {self.good} of {self.count} episodes succeed; evaluated without noise,"
            f" the policy succeeds in {able.low:.0%} to {able.high:.0%}. So wide a noise may"
            " leave little to learn from: if the success does not rise in the next updates, narrow"
            " it (std_max of policy.sampler or of exploration.sampler)"
        )


def _success(context: Context) -> Interval | None:
    """Return the success interval of the newest policy; None if the measure is not success."""
    if context.experiment.eval.measure != "success":
        return None
    makers = (report for _, report in reversed(context.earlier) if "policy" in report.artifacts)
    found = next((report.numbers.get("success") for report in makers), None)
    return None if found is None else Interval(found["low"], found["high"])
