"""The controllers of a simulated robot: what they make of messages, as positions by name.

Not a part of what is deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from robo_rl.errors import SpecError
from robo_rl.robot import Robot
from robo_rl_sim2real.hand import HandPoses
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.readings import Reading, pick

Positions = dict[str, float]

_TWIST_TIMEOUT_S = 0.1
"""As MoveIt Servo's ``incoming_command_timeout``: a velocity that is older counts no more."""


class Inlet(NamedTuple):
    """A controller.

    Args:
        topic: Where it hears commands.
        kind: Their interface.
        read: What one says; it raises SpecError if nothing can be made of it.
    """

    topic: str
    kind: Kind
    read: Callable[[Reading], Positions]


def inlets(robot: Robot, commanded: list[str]) -> Iterator[Inlet]:
    """Those of a robot that take positions; for velocities see ``Servo``.

    A forward controller takes an array in the task's order; a trajectory controller goes to the
    last point at once; a Cartesian one takes poses, and beside it an array moves the rest.

    Args:
        robot: The robot.
        commanded: Names of what the task moves, in the order of its actions.
    """
    topics, hand = robot.topics, HandPoses.of(robot)
    if not {*commanded} & {*hand.names}:
        yield Inlet(topics.command, Kind.ARRAY, _array(topics.command, commanded))
        yield Inlet(topics.trajectory, Kind.TRAJECTORY, _last_point)
        return
    rest = [name for name in commanded if name not in hand.names]
    yield Inlet(topics.hand_pose, Kind.POSE, _pose(topics.hand_pose, hand))
    if rest:
        yield Inlet(topics.gripper, Kind.ARRAY, _array(topics.gripper, rest))


def _array(topic: str, names: list[str]) -> Callable[[Reading], Positions]:
    def read(reading: Reading) -> Positions:
        data = pick(reading, "data", (), topic)
        if len(data) != len(names):
            raise SpecError(f"{topic}: {len(data)} numbers for {len(names)} joints")
        return dict(zip(names, data, strict=True))

    return read


def _last_point(reading: Reading) -> Positions:
    points = reading.fields["positions"]
    if not np.isfinite(points).all():
        raise SpecError("not finite", found=points.tolist())
    return dict(zip(reading.names, points[-1], strict=True)) if len(points) else {}


def _pose(topic: str, hand: HandPoses) -> Callable[[Reading], Positions]:
    return lambda reading: dict(zip(hand.names, hand.numbers(reading, topic), strict=True))


class Servo:
    """What makes positions of velocities: the last one counts until it is too old.

    Args:
        robot: One with a hand.
    """

    def __init__(self, robot: Robot) -> None:
        self._hand, self._topic = HandPoses.of(robot), robot.topics.hand_twist
        self._twist: Reading | None = None
        self._came_s = -np.inf

    def take(self, twist: Reading, came_s: float) -> None:
        """A velocity."""
        self._twist, self._came_s = twist, came_s

    def check(self, twist: Reading) -> None:
        """Refuse what is not finite or of another frame.

        Raises:
            SpecError: It is.
        """
        self._hand.demand_frame(twist, self._topic)
        for field in ("linear", "angular"):
            pick(twist, field, (), self._topic)

    def positions(self, at: Positions, now_s: float, span_s: float) -> Positions:
        """Where it takes the hand from targets ``at`` within ``span_s``; nothing if it is old."""
        if self._twist is None or now_s - self._came_s > _TWIST_TIMEOUT_S:
            return {}
        names = self._hand.names
        numbers = self._hand.moved(np.array([at[name] for name in names]), self._twist, span_s)
        return dict(zip(names, numbers, strict=True))
