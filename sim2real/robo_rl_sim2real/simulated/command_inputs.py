"""The controllers of a simulated robot: what they make of messages, as positions by name.

Not a part of what is deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading, select_by_name

Positions = dict[str, float]

_TWIST_TIMEOUT_S = 0.1
"""As MoveIt Servo's ``incoming_command_timeout``: a velocity that is older counts no more."""


class CommandSubscription(NamedTuple):
    """A controller.

    Args:
        topic: Where it hears commands.
        kind: Their interface.
        read: What one says; it raises SpecError if nothing can be made of it.
    """

    topic: str
    kind: MsgType
    read: Callable[[Reading], Positions]


def command_subscriptions(robot: Robot, commanded: list[str]) -> Iterator[CommandSubscription]:
    """Those of a robot that take positions; see ``Servo`` for velocities, ``Follower`` for ways.

    A forward controller takes an array in the task's order; a Cartesian one takes poses, and beside
    it an array moves the rest.

    Args:
        robot: The robot.
        commanded: Names of what the task moves, in the order of its actions.
    """
    topics, hand = robot.topics, EePoseAxes.of(robot)
    if not {*commanded} & {*hand.names}:
        yield CommandSubscription(topics.command, MsgType.ARRAY, _array(topics.command, commanded))
        return
    rest = [name for name in commanded if name not in hand.names]
    yield CommandSubscription(
        topics.ee_pose_command, MsgType.POSE, _pose(topics.ee_pose_command, hand)
    )
    if rest:
        yield CommandSubscription(
            topics.gripper_command, MsgType.ARRAY, _array(topics.gripper_command, rest)
        )


def _array(topic: str, names: list[str]) -> Callable[[Reading], Positions]:
    def read(reading: Reading) -> Positions:
        data = select_by_name(reading, "data", (), topic)
        if len(data) != len(names):
            raise SpecError(f"{topic}: {len(data)} numbers for {len(names)} joints")
        return dict(zip(names, data, strict=True))

    return read


def _pose(topic: str, hand: EePoseAxes) -> Callable[[Reading], Positions]:
    return lambda reading: dict(zip(hand.names, hand.numbers(reading, topic), strict=True))


class TrajectoryController:
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

    def set_trajectory(self, way: Reading, came_s: float, at: Positions) -> None:
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


class TwistController:
    """What makes positions of velocities: the last one counts until it is too old.

    Args:
        robot: One with a hand.
    """

    def __init__(self, robot: Robot) -> None:
        self._hand, self._topic = EePoseAxes.of(robot), robot.topics.ee_twist_command
        self._twist: Reading | None = None
        self._came_s = -np.inf

    def set_twist(self, twist: Reading, came_s: float) -> None:
        """A velocity."""
        self._twist, self._came_s = twist, came_s

    def check(self, twist: Reading) -> None:
        """Refuse what is not finite or of another frame.

        Raises:
            SpecError: It is.
        """
        self._hand.check_frame(twist, self._topic)
        for field in ("linear", "angular"):
            select_by_name(twist, field, (), self._topic)

    def positions(self, at: Positions, now_s: float, span_s: float) -> Positions:
        """Where it takes the hand from targets ``at`` within ``span_s``; nothing if it is old."""
        if self._twist is None or now_s - self._came_s > _TWIST_TIMEOUT_S:
            return {}
        names = self._hand.names
        numbers = self._hand.integrate_twist(
            np.array([at[name] for name in names]), self._twist, span_s
        )
        return dict(zip(names, numbers, strict=True))
