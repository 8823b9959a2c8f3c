"""A command topic and the conversion between commands and its messages.

Shapes: n values of a command, in the order of the contract; m of them on one topic.
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
        """Return the positions (m,) in a command.

        Raises:
            SpecError: It has no positions or other joints, or they are not finite.
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

    def _last_point(self, reading: Reading) -> Values:
        if sorted(reading.names) != sorted(self.joints):
            expected, found = ", ".join(self.joints), ", ".join(reading.names)
            raise SpecError(f"{self.topic}: command", expected=expected, found=found)
        last = reading.fields["positions"][-1:].ravel()
        return select_by_name(
            reading._replace(fields={"last": last}), "last", self.joints, self.topic
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
    MsgType.TRAJECTORY: lambda outlet, reading: outlet._last_point(reading),
    MsgType.POSE: lambda outlet, reading: outlet.ee_axes.numbers(reading, outlet.topic),
}
