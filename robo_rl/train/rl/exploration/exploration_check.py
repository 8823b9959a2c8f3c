"""Compares the success of the first training episodes with that of the policy without noise."""

from __future__ import annotations

from robo_rl.stats.intervals import Interval, wilson
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes

EPISODES = 100
SHARE = 0.5


class ExplorationCheck:
    """Checks the cost of exploration noise once, on the first hundred training episodes.

    A precise policy may fail under little noise. Then no episode succeeds during exploration, and
    training has hardly any signal. The trained policy then evaluates worse than the initial one.

    Args:
        context: Context of the stage, with the report of the stage that made the policy.
    """

    def __init__(self, context: Context) -> None:
        self._able = _success(context)
        self._good = self._count = 0

    def observe(self, outcomes: EpisodeOutcomes) -> str | None:
        """Add finished episodes; return a warning, once, if exploration more than halves success.

        The criterion: the upper end of the 95 % interval under exploration is below half of the
        lower end of the interval without noise.
        """
        if self._able is None:
            return None
        self._good += int(outcomes.success.sum())
        self._count += len(outcomes.success)
        if self._count < EPISODES:
            return None
        able, self._able = self._able, None
        if wilson(self._good, self._count).high >= SHARE * able.low:
            return None
        return (
            f"exploring, {self._good} of {self._count} episodes succeed; evaluated without noise,"
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
