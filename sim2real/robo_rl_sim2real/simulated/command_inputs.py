"""Command inputs of a simulated robot: conversion of messages to positions by name.

This module is not deployed.
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
"""Velocity timeout, as MoveIt Servo's ``incoming_command_timeout``."""


class CommandSubscription(NamedTuple):
    """A command topic and its conversion to positions.

    Args:
        topic: Name of the topic.
        kind: Interface of its messages.
        read: Converts a message; raises SpecError if it is invalid.
    """

    topic: str
    kind: MsgType
    read: Callable[[Reading], Positions]


def command_subscriptions(robot: Robot, commanded: list[str]) -> Iterator[CommandSubscription]:
    """Yield the position inputs of a robot.

    ``TwistController`` handles velocities, ``TrajectoryController`` trajectories. A forward
    controller takes an array in the task's order. A Cartesian controller takes poses, and a
    separate array moves the remaining axes.

    Args:
        robot: The robot.
        commanded: Names of the joints and axes that the task moves, in the order of its actions.
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
    """Moves joints along the last trajectory by linear interpolation between its points.

    A trajectory replaces the previous one and starts from the present targets. After its end it
    gives no positions.
    """

    def __init__(self) -> None:
        self._way: Reading | None = None
        self._began_s, self._start = 0.0, np.zeros(0)

    @staticmethod
    def check(way: Reading) -> None:
        """Refuse a trajectory that is not finite or whose times decrease.

        Raises:
            SpecError: The trajectory is invalid.
        """
        for name, values in way.fields.items():
            if not np.isfinite(values).all():
                raise SpecError(f"trajectory: {name} not finite", found=values.tolist())
        if (np.diff(way.fields["times"], prepend=0.0) < 0).any():
            found = way.fields["times"].tolist()
            raise SpecError("trajectory: times", expected="in order", found=found)

    def set_trajectory(self, way: Reading, came_s: float, at: Positions) -> None:
        """Start a trajectory from the targets ``at``; unknown joints are ignored."""
        self._way, self._began_s = way if len(way.fields["times"]) else None, came_s
        self._start = np.array([at.get(name, np.nan) for name in way.names])

    def positions(self, now_s: float) -> Positions:
        """Return the present positions; empty without a trajectory."""
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
    """Integrates velocities to positions; a velocity is valid until it times out.

    Args:
        robot: A robot with an end effector.
    """

    def __init__(self, robot: Robot) -> None:
        self._hand, self._topic = EePoseAxes.of(robot), robot.topics.ee_twist_command
        self._twist: Reading | None = None
        self._came_s = -np.inf

    def set_twist(self, twist: Reading, came_s: float) -> None:
        """Set the velocity."""
        self._twist, self._came_s = twist, came_s

    def check(self, twist: Reading) -> None:
        """Refuse a velocity that is not finite or in another frame.

        Raises:
            SpecError: The velocity is invalid.
        """
        self._hand.check_frame(twist, self._topic)
        for field in ("linear", "angular"):
            select_by_name(twist, field, (), self._topic)

    def positions(self, at: Positions, now_s: float, span_s: float) -> Positions:
        """Return the targets ``at`` moved by the velocity for ``span_s``; empty after a timeout."""
        if self._twist is None or now_s - self._came_s > _TWIST_TIMEOUT_S:
            return {}
        names = self._hand.names
        numbers = self._hand.integrate_twist(
            np.array([at[name] for name in names]), self._twist, span_s
        )
        return dict(zip(names, numbers, strict=True))
