"""Measured positions of the commanded joints and end-effector axes.

Joints are measured by name, the end effector by its pose. Shapes: n values, in the order of the
contract's actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.commands.deltas import DeltaActions
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values, select_by_name


class FeedbackSample(NamedTuple):
    """The measured positions at one moment.

    Args:
        pos: (n,) measured positions.
        stamp_s: Arrival time of the oldest reading in use.
    """

    pos: Values
    stamp_s: float


class Feedback(NamedTuple):
    """The topics with the measured positions.

    Args:
        topic: Topic of joint states; empty if no joint is commanded.
        names: (n,) joints and end-effector axes.
        deltas: Conversion of actions that are changes of the last target; None if all are
            targets.
        ee_topic: Topic of the end effector's pose; empty if no end-effector axis is commanded.
        ee_axes: Conversion of the pose to axis values.
    """

    topic: str
    names: tuple[str, ...]
    deltas: DeltaActions | None = None
    ee_topic: str = ""
    ee_axes: EePoseAxes = EePoseAxes()

    @property
    def topics(self) -> dict[str, MsgType]:
        """Subscribed topics and their interfaces."""
        pairs = ((self.topic, MsgType.JOINT_STATES), (self.ee_topic, MsgType.POSE))
        return {topic: kind for topic, kind in pairs if topic}

    def sample(self, inbox: Inbox) -> FeedbackSample | None:
        """Return the present positions; None if a topic is silent so far.

        Raises:
            SpecError: A reading does not fit.
        """
        came = {topic: reading for topic in self.topics if (reading := inbox.get(topic))}
        if len(came) < len(self.topics):
            return None
        values: dict[str, float] = {}
        for topic, reading in came.items():
            values |= dict(zip(self.names_on(topic), self.read(topic, reading), strict=True))
        pos = np.array([values[name] for name in self.names])
        return FeedbackSample(pos, min(reading.stamp_s for reading in came.values()))

    def names_on(self, topic: str) -> tuple[str, ...]:
        """Return the names of the values on one of the topics."""
        if topic == self.ee_topic:
            return self.ee_axes.names
        return tuple(name for name in self.names if name not in self.ee_axes.names)

    def read(self, topic: str, reading: Reading) -> Values:
        """Return the positions of ``names_on(topic)`` in a reading.

        Raises:
            SpecError: The reading does not fit.
        """
        if topic == self.ee_topic:
            return self.ee_axes.numbers(reading, topic)
        if not reading.names:
            raise SpecError("joint states without names", where=topic)
        return select_by_name(reading, "position", self.names_on(topic), topic)
