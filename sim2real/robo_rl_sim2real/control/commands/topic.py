"""A command topic and the conversion between commands and its messages.

Shapes: n values of a command, in the order of the contract; m of them on one topic; P points of a
trajectory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading, Values, select_by_name
from robo_rl_sim2real.messages.trajectory import FOLLOW

_SAME_PERIOD = 1e-3  # a time in ns may differ from a whole control period by its rounding


class Waypoints(NamedTuple):
    """A trajectory on one topic, linear between its points.

    Args:
        periods: (P,) times of the points, in control periods from the start.
        positions: (P, m) positions.
    """

    periods: Values
    positions: Values

    def at(self, period: float) -> Values:
        """Return the positions (m,) at a time; the first or last point outside."""
        return np.array([np.interp(period, self.periods, axis) for axis in self.positions.T])

    def starting_from(self, start: Values | None) -> Waypoints:
        """Return the trajectory from positions (m,), if its first point is due later."""
        if start is None or self.periods[0] <= 0.0:
            return self
        return Waypoints(np.append(0.0, self.periods), np.vstack([start, self.positions]))


class CommandTopic(NamedTuple):
    """The topic of a command or of a part of it.

    Args:
        topic: Name of the topic.
        kind: Interface of its messages.
        joints: (m,) names of joints or axes, in the controller's order.
        indices: (m,) their indices in a command.
        dt_s: Control period.
        ee_axes: Conversion to and from poses, for pose and twist topics.
        action: Whether ``topic`` names an action of type FollowJointTrajectory; commands are its
            goals.
    """

    topic: str
    kind: MsgType
    joints: tuple[str, ...]
    indices: tuple[int, ...]
    dt_s: float
    ee_axes: EePoseAxes = EePoseAxes()
    action: bool = False

    @property
    def interface(self) -> str:
        """Interface of the topic or action."""
        return FOLLOW if self.action else self.kind.value

    def to_reading(self, motion: Motion) -> Reading:
        """Return this topic's part of a command, each field of the motion (n,), as a reading."""
        pos, vel = motion.pos[list(self.indices)], motion.vel[list(self.indices)]
        return _WRITE[self.kind](self, pos, vel)

    def positions_in(self, reading: Reading) -> Values:
        """Return the positions (m,) in a command; of a trajectory, those after one period.

        Raises:
            SpecError: It has no positions or other joints, they are not finite, or times decrease.
        """
        if self.kind not in _READ:
            raise SpecError(f"{self.topic}: {self.kind.value} says no positions")
        values = _READ[self.kind](self, reading)
        if values.shape != (len(self.joints),):
            expected = f"{len(self.joints)} joints"
            raise SpecError(f"{self.topic}: command", expected=expected, found=len(values))
        if not np.isfinite(values).all():
            found = values.tolist()
            raise SpecError(f"{self.topic}: command", expected="finite numbers", found=found)
        return values

    def _points(self, pos: Values) -> Reading:
        fields = {"positions": pos[None], "times": np.array([self.dt_s])}
        return Reading(fields, self.joints, 0.0)

    def waypoints(self, reading: Reading) -> Waypoints:
        """Return the points of a trajectory.

        Raises:
            SpecError: It has other joints or no points, they are not finite, or times decrease.
        """
        if sorted(reading.names) != sorted(self.joints):
            expected, found = ", ".join(self.joints), ", ".join(reading.names)
            raise SpecError(f"{self.topic}: command", expected=expected, found=found)
        times, where = reading.fields["times"], self.topic
        if not len(times):
            raise SpecError(f"{where}: command", expected="a point of a trajectory", found="none")
        if (np.diff(times, prepend=0.0) < 0.0).any():
            problem = f"{where}: time_from_start"
            raise SpecError(problem, expected="times in order", found=times.tolist())
        rows = {"points": reading.fields["positions"].T}
        positions = select_by_name(reading._replace(fields=rows), "points", self.joints, where).T
        periods, whole = times / self.dt_s, np.round(times / self.dt_s)
        return Waypoints(
            np.where(np.abs(periods - whole) < _SAME_PERIOD, whole, periods), positions
        )


_WRITE: dict[MsgType, Callable[[CommandTopic, Values, Values], Reading]] = {
    MsgType.ARRAY: lambda outlet, pos, _: Reading({"data": pos}, outlet.joints, 0.0),
    MsgType.TRAJECTORY: lambda outlet, pos, _: outlet._points(pos),
    MsgType.POSE: lambda outlet, pos, _: outlet.ee_axes.pose(pos),
    MsgType.TWIST: lambda outlet, pos, vel: outlet.ee_axes.twist(
        pos, pos - vel * outlet.dt_s, outlet.dt_s
    ),
}
_READ: dict[MsgType, Callable[[CommandTopic, Reading], Values]] = {
    MsgType.ARRAY: lambda outlet, reading: reading.fields["data"],
    MsgType.TRAJECTORY: lambda outlet, reading: outlet.waypoints(reading).at(1.0),
    MsgType.POSE: lambda outlet, reading: outlet.ee_axes.numbers(reading, outlet.topic),
}
