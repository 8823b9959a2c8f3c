"""Tracks the pose of the robot: where it is measured, and whether it is at the last command.

Shapes: n joints or axes, in the order of the contract's actions. Times are in seconds of one
monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robo_rl_sim2real.control.commands.safety import Safety
from robo_rl_sim2real.control.feedback import Feedback
from robo_rl_sim2real.control.feedback_checks import FeedbackChecker
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.core.lifecycle_states import TransitionError
from robo_rl_sim2real.messages.readings import Inbox, Values
from robo_rl_sim2real.perception.observer import Frame, Observer

_AT_ANOTHER_PLACE = (
    "compare the robot with its readings; if they are right, ask for 'reset' to accept its place"
)


class PoseTracker:
    """The last plausible pose of the robot, and its last command.

    Args:
        measured: Reads the measured positions of the commanded joints.
        checker: Checks their plausibility.
        safety: Safety checks, which hold the last command.
        topics: Topics of all measurements, which must stay fresh.
        pos: (n,) pose before the first reading.
        sends: Whether commands reach the robot.
        graph: Returns the problems of the graph.
    """

    def __init__(
        self,
        measured: Feedback,
        checker: FeedbackChecker,
        safety: Safety,
        topics: set[str],
        pos: Values,
        *,
        sends: bool,
        graph: Callable[[], GraphProblems],
    ) -> None:
        self._measured, self._checker, self._safety = measured, checker, safety
        self._topics, self._sends, self._graph = topics, sends, graph
        self.pos = pos
        """(n,) the last plausible measurement."""
        self.measured_s = -np.inf
        """Arrival of the oldest reading in it."""
        self.seen_s = -np.inf
        """Arrival of the oldest reading in it and in the last frame."""
        self.is_commanded = False
        """Whether commands are sent."""
        self._left: Values | None = None

    def track(self, inbox: Inbox) -> None:
        """Check the feedback and keep its pose; implausible feedback is ignored.

        Args:
            inbox: Snapshot of the readings.

        Raises:
            SpecError: A reading of the feedback does not fit.
        """
        found = self._measured.sample(inbox)
        if found is None:
            return
        told = self._safety.limiter.motion.pos if self.is_commanded and self._sends else None
        self._checker.check(inbox, found.pos, told)
        if self.implausible_reason:
            return
        self.pos, self.measured_s = found
        if self._left is not None and not self._checker.same_pose(found.pos, self._left):
            self._left = None  # another source moved the robot: the last command is obsolete

    def read_frame(self, inbox: Inbox, observer: Observer) -> Frame | None:
        """Return the frame beside the tracked pose; both are as old as their oldest reading.

        None if a topic is silent so far, or if the feedback is implausible.

        Args:
            inbox: The snapshot that was tracked.
            observer: Builds the frame.

        Raises:
            SpecError: A reading does not fit.
        """
        frame = observer.read_frame(inbox)
        if frame is None or self.measured_s == -np.inf or self.implausible_reason:
            return None
        self.seen_s = min(frame.stamp_s, self.measured_s)
        return frame

    def read(self, inbox: Inbox, observer: Observer) -> Frame | None:
        """Track the feedback, then return the frame; see ``track`` and ``read_frame``.

        Raises:
            SpecError: A reading does not fit; the feedback is tracked if its own readings do.
        """
        inbox = inbox.snapshot()
        self.track(inbox)
        return self.read_frame(inbox, observer)

    @property
    def implausible_reason(self) -> str:
        """Why the measurement is implausible; empty if it is plausible."""
        return self._graph().readings or self._checker.implausible_reason

    @property
    def commanded(self) -> Values | None:
        """The commanded pose (n,) if the robot is known to be there; else None.

        It is known while commands are sent, and afterwards until the robot moves away.
        """
        safety = self._safety
        known = self.is_commanded or (self._left is not None and safety.reached(self.pos))
        return safety.limiter.motion.pos if self._sends and known else None

    def end_commands(self) -> None:
        """Record that no more commands are sent, and where they leave the robot."""
        if self.is_commanded:
            self.is_commanded, self._left = False, self.pos

    def is_fresh(self, now_s: float) -> bool:
        """Return whether the pose is within the age limit."""
        return now_s - self.seen_s <= self._safety.max_age_s

    def is_regular(self, inbox: Inbox) -> bool:
        """Return whether the latest readings arrived without gaps above the age limit."""
        limit = self._safety.max_age_s
        return all(inbox.gap_s(topic) <= limit for topic in self._topics)

    def demand_fresh(self, inbox: Inbox, now_s: float, what: str) -> None:
        """Refuse a start unless the robot's pose is known.

        Raises:
            TransitionError: A reading is missing, stale or implausible.
        """
        silent = [topic for topic in self._topics if inbox.get(topic) is None]
        if not silent and self.implausible_reason:
            raise TransitionError(
                f"cannot {what}: what is measured is in doubt",
                found=self.implausible_reason,
                hint=_AT_ANOTHER_PLACE if self._checker.is_displaced else None,
            )
        if not silent and self.is_fresh(now_s):
            return
        age = now_s - self.seen_s
        raise TransitionError(
            f"cannot {what}: observations are not fresh",
            expected=f"at most {self._safety.max_age_s:g} s old",
            found=f"none on {', '.join(sorted(silent))}" if silent else f"{age:.2f} s",
            hint=inbox.problem(self._topics) or None,
        )

    def demand_standing(self, what: str) -> None:
        """Refuse a start unless the robot was measured at one place several times.

        Raises:
            TransitionError: It moves.
        """
        if not self._checker.is_standing:
            raise TransitionError(
                f"cannot {what}: the robot moves",
                expected="several readings in one place",
                hint="wait until it stands, and whatever else commands it is silent",
            )
