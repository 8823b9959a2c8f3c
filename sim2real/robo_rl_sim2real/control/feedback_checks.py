"""Checks the plausibility of all feedback topics, also against the commands.

Shapes: n commanded joints and axes, m of them on one topic.
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
    """Checks the feedback of all commanded joints, topic by topic.

    Args:
        cfg: See ``PlausibilityCheck.Config``.
        measured: The feedback topics.
        limits: Limits of the robot, (n,), in the order of ``measured.names``.
        follows: (n,) bool, joints whose tracking error is checked.
        placed: (n,) bool, joints with position commands.
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
        """Why the last measurement is implausible; empty if it is plausible."""
        return "; ".join(
            f"{topic}: {each.judge.problem}"
            for topic, each in self._judged.items()
            if not each.judge.believed
        )

    @property
    def is_standing(self) -> bool:
        """Whether all joints were measured at one place several times."""
        return all(each.judge.is_standing for each in self._judged.values())

    @property
    def is_displaced(self) -> bool:
        """Whether plausible readings are refused only because of their place."""
        return any(each.judge.displaced for each in self._judged.values())

    def accept_place(self) -> None:
        """Accept readings near the last ones, because an operator confirms their place."""
        for each in self._judged.values():
            each.judge.accept_place()

    def same_pose(self, pos: Values, other: Values) -> bool:
        """Return whether two measured poses (n,) are equal up to noise."""
        return bool((np.abs(pos - other) <= self._noise).all())

    def check(self, inbox: Inbox, pos: Values, commanded: Values | None) -> None:
        """Check the newest reading of every topic; each topic must have one.

        Args:
            inbox: Snapshot of the readings.
            pos: (n,) measured positions in it.
            commanded: (n,) commanded positions; None without commands.

        Raises:
            SpecError: A reading does not fit.
        """
        near = None if commanded is None else np.where(self._placed, commanded, np.nan)
        for topic, (judge, rows) in self._judged.items():
            reading = inbox.get(topic)
            assert reading is not None
            told = None if near is None else near[rows]
            silent_s = inbox.longest_gap_s(topic, judge.checked_s)
            judge.check(reading, pos[rows], self._velocity(topic, reading), told, silent_s)

    def _velocity(self, topic: str, reading: Reading) -> Values | None:
        """Return the joints' measured velocities; None if the driver sends none, or NaN."""
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
