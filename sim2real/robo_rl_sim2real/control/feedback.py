"""Where what is commanded is measured: joints by name, the end effector by its pose.

Shapes: n numbers, in the order of the contract's actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values, select_by_name


class FeedbackSample(NamedTuple):
    """One moment.

    Args:
        pos: (n,) what was measured.
        stamp_s: When the oldest reading in it arrived.
    """

    pos: Values
    stamp_s: float


class Feedback(NamedTuple):
    """Where it is measured.

    Args:
        topic: Topic of joint states; empty where no joint is commanded.
        names: (n,) joints and axes of the hand.
        delta_limits: (low, high), each (n,), of actions that are changes of the last target; None where
            they are targets themselves.
        ee_topic: Topic of the end effector's pose; empty where no axis of it is commanded.
        ee_axes: How it is read.
    """

    topic: str
    names: tuple[str, ...]
    delta_limits: tuple[Values, Values] | None = None
    ee_topic: str = ""
    ee_axes: EePoseAxes = EePoseAxes()

    @property
    def topics(self) -> dict[str, MsgType]:
        """What is heard, and its interfaces."""
        pairs = ((self.topic, MsgType.JOINT_STATES), (self.ee_topic, MsgType.POSE))
        return {topic: kind for topic, kind in pairs if topic}

    def sample(self, inbox: Inbox) -> FeedbackSample | None:
        """This moment; None where a topic was silent so far.

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
        """What is measured on one of its topics, by name."""
        if topic == self.ee_topic:
            return self.ee_axes.names
        return tuple(name for name in self.names if name not in self.ee_axes.names)

    def read(self, topic: str, reading: Reading) -> Values:
        """The positions of ``on(topic)`` in a reading.

        Raises:
            SpecError: It does not fit.
        """
        if topic == self.ee_topic:
            return self.ee_axes.numbers(reading, topic)
        if not reading.names:
            raise SpecError("joint states without names", where=topic)
        return select_by_name(reading, "position", self.names_on(topic), topic)
