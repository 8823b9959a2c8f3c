"""Where what is commanded is measured: joints by name, the end effector by its pose.

Shapes: n numbers, in the order of the contract's actions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.ee_pose import HandPoses
from robo_rl_sim2real.messages.kinds import Kind
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values, pick


class Found(NamedTuple):
    """One moment.

    Args:
        pos: (n,) what was measured.
        stamp_s: When the oldest reading in it arrived.
    """

    pos: Values
    stamp_s: float


class Measured(NamedTuple):
    """Where it is measured.

    Args:
        topic: Topic of joint states; empty where no joint is commanded.
        names: (n,) joints and axes of the hand.
        change: (low, high), each (n,), of actions that are changes of the last target; None where
            they are targets themselves.
        hand_topic: Topic of the end effector's pose; empty where no axis of it is commanded.
        hand: How it is read.
    """

    topic: str
    names: tuple[str, ...]
    change: tuple[Values, Values] | None = None
    hand_topic: str = ""
    hand: HandPoses = HandPoses()

    @property
    def topics(self) -> dict[str, Kind]:
        """What is heard, and its interfaces."""
        pairs = ((self.topic, Kind.JOINT_STATES), (self.hand_topic, Kind.POSE))
        return {topic: kind for topic, kind in pairs if topic}

    def look(self, inbox: Inbox) -> Found | None:
        """This moment; None where a topic was silent so far.

        Raises:
            SpecError: A reading does not fit.
        """
        came = {topic: reading for topic in self.topics if (reading := inbox.get(topic))}
        if len(came) < len(self.topics):
            return None
        values: dict[str, float] = {}
        for topic, reading in came.items():
            values |= dict(zip(self.on(topic), self.read(topic, reading), strict=True))
        pos = np.array([values[name] for name in self.names])
        return Found(pos, min(reading.stamp_s for reading in came.values()))

    def on(self, topic: str) -> tuple[str, ...]:
        """What is measured on one of its topics, by name."""
        if topic == self.hand_topic:
            return self.hand.names
        return tuple(name for name in self.names if name not in self.hand.names)

    def read(self, topic: str, reading: Reading) -> Values:
        """The positions of ``on(topic)`` in a reading.

        Raises:
            SpecError: It does not fit.
        """
        if topic == self.hand_topic:
            return self.hand.numbers(reading, topic)
        if not reading.names:
            raise SpecError("joint states without names", where=topic)
        return pick(reading, "position", self.on(topic), topic)
