"""Which readings are held to plausibility, and how they stand beside what is commanded.

Shapes: n joints and axes that are commanded, m of one topic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.plausibility import AxisLimits, PlausibilityCheck
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values, select_by_name


class _CheckedTopic(NamedTuple):
    judge: PlausibilityCheck
    rows: NDArray[np.intp]


class FeedbackChecker:
    """Judges all that is measured of what is commanded, topic by topic.

    Args:
        cfg: See ``PlausibilityCheck.Config``.
        measured: Where it is measured.
        limits: Of the robot, (n,), in the order of ``measured.names``.
        follows: (n,) bool, joints that are where they were told to be unless something is wrong.
        placed: (n,) bool, joints that go where a command says.
    """

    def __init__(
        self,
        cfg: PlausibilityCheck.Config,
        measured: Feedback,
        limits: Limits,
        follows: NDArray[np.bool_],
        placed: NDArray[np.bool_],
    ) -> None:
        self._measured, self._follows, self._placed = measured, follows, placed
        self._judged = {topic: self._of(topic, cfg, limits) for topic in measured.topics}
        self._noise = np.zeros(len(measured.names))
        for judge, rows in self._judged.values():
            self._noise[rows] = judge.noise

    @property
    def implausible_reason(self) -> str:
        """Why what was measured last is not believed; empty where it is."""
        return "; ".join(
            f"{topic}: {each.judge.problem}"
            for topic, each in self._judged.items()
            if not each.judge.believed
        )

    @property
    def is_standing(self) -> bool:
        """Whether all of it was measured in one place, several times."""
        return all(each.judge.is_standing for each in self._judged.values())

    def same_pose(self, pos: Values, other: Values) -> bool:
        """Whether two measured poses (n,) are one, but for noise."""
        return bool((np.abs(pos - other) <= self._noise).all())

    def check(self, inbox: Inbox, pos: Values, commanded: Values | None) -> None:
        """Judge the newest readings, of which every topic has one.

        Args:
            inbox: Of one moment.
            pos: (n,) what was measured in it.
            commanded: (n,) what is commanded; None where nothing is.

        Raises:
            SpecError: A reading does not fit.
        """
        near = None if commanded is None else np.where(self._placed, commanded, np.nan)
        for topic, (judge, rows) in self._judged.items():
            reading = inbox.get(topic)
            assert reading is not None
            told = None if near is None else near[rows]
            judge.check(reading, pos[rows], self._velocity(topic, reading), told)

    def _velocity(self, topic: str, reading: Reading) -> Values | None:
        """What joints say of their velocity; None from a driver that says nothing, or NaN."""
        said = reading.fields.get("velocity")
        if topic != self._measured.topic or said is None or len(said) != len(reading.names):
            return None
        if not np.isfinite(said).all():
            return None
        return select_by_name(reading, "velocity", self._measured.names_on(topic), topic)

    def _of(self, topic: str, cfg: PlausibilityCheck.Config, limits: Limits) -> _CheckedTopic:
        names = self._measured.names_on(topic)
        rows = np.array([self._measured.names.index(name) for name in names])
        axes = AxisLimits(
            names,
            *(limits.low[rows], limits.high[rows], limits.velocity[rows]),
            *(limits.acceleration[rows], limits.high[rows] - limits.low[rows]),
            ~self._follows[rows],
        )
        return _CheckedTopic(PlausibilityCheck(cfg, axes), rows)
