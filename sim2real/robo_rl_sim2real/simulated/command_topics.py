"""The controllers of a simulated robot: what they make of messages, as positions by name.

Not a part of what is deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.ee_pose import HandPoses
from robo_rl_sim2real.messages.kinds import Kind
from robo_rl_sim2real.messages.readings import Reading, pick

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
    """Those of a robot that take positions; see ``Servo`` for velocities, ``Follower`` for ways.

    A forward controller takes an array in the task's order; a Cartesian one takes poses, and beside
    it an array moves the rest.

    Args:
        robot: The robot.
        commanded: Names of what the task moves, in the order of its actions.
    """
    topics, hand = robot.topics, HandPoses.of(robot)
    if not {*commanded} & {*hand.names}:
        yield Inlet(topics.command, Kind.ARRAY, _array(topics.command, commanded))
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


def _pose(topic: str, hand: HandPoses) -> Callable[[Reading], Positions]:
    return lambda reading: dict(zip(hand.names, hand.numbers(reading, topic), strict=True))


class Follower:
    """What takes the joints along the last trajectory: straight from point to point, in its time.

    A trajectory takes the place of the one before, from where the joints were told to be then. Once
    at its end it says nothing more.
    """

    def __init__(self) -> None:
        self._way: Reading | None = None
        self._began_s, self._start = 0.0, np.zeros(0)

    @staticmethod
    def check(way: Reading) -> None:
        """Refuse what is not finite or goes back in time.

        Raises:
            SpecError: It is.
        """
        for name, values in way.fields.items():
            if not np.isfinite(values).all():
                raise SpecError(f"trajectory: {name} not finite", found=values.tolist())
        if (np.diff(way.fields["times"], prepend=0.0) < 0).any():
            found = way.fields["times"].tolist()
            raise SpecError("trajectory: times", expected="in order", found=found)

    def take(self, way: Reading, came_s: float, at: Positions) -> None:
        """A trajectory, while targets are ``at``; of joints that are not there nothing is made."""
        self._way, self._began_s = way if len(way.fields["times"]) else None, came_s
        self._start = np.array([at.get(name, np.nan) for name in way.names])

    def positions(self, now_s: float) -> Positions:
        """Where it takes the joints by now; nothing where there is no trajectory."""
        if self._way is None:
            return {}
        times = np.concatenate([[0.0], self._way.fields["times"]])
        points = np.vstack([self._start, self._way.fields["positions"]])
        names, spent_s = self._way.names, now_s - self._began_s
        if spent_s >= times[-1]:
            self._way = None
        found = [float(np.interp(spent_s, times, column)) for column in points.T]
        return {n: p for n, p, s in zip(names, found, self._start, strict=True) if not np.isnan(s)}


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
