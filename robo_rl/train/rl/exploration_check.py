"""What exploring costs: success of the first training episodes beside that of the policy itself."""

from __future__ import annotations

from robo_rl.stats.intervals import Interval, wilson
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes

EPISODES = 100
SHARE = 0.5


class ExplorationCheck:
    """Looks once, at the first hundred episodes or so, before much is learnt.

    A policy may be so exact that little noise breaks it. Then nothing succeeds while it explores,
    there is hardly anything to learn from, and what is evaluated in the end is worse than before.

    Args:
        context: Of the stage; the report of the stage that made the policy says what it can do.
    """

    def __init__(self, context: Context) -> None:
        self._able = _success(context)
        self._good = self._count = 0

    def observe(self, outcomes: EpisodeOutcomes) -> str | None:
        """Take in finished episodes; says so, once, if fewer than half as many succeed.

        That is, if the whole 95 % interval of theirs is below half of the other's lower end.
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
            f" the policy succeeds in {able.low:.0%} to {able.high:.0%}. So wide a noise leaves"
            " little to learn from: narrow it (std_max of policy.sampler or of exploration.sampler)"
        )


def _success(context: Context) -> Interval | None:
    """What the newest policy was measured to do; None where success is not what is judged."""
    if context.experiment.eval.measure != "success":
        return None
    makers = (report for _, report in reversed(context.earlier) if "policy" in report.artifacts)
    found = next((report.numbers.get("success") for report in makers), None)
    return None if found is None else Interval(found["low"], found["high"])
