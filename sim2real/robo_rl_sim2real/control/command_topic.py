"""Where commands go, and how they are written there.

Shapes: n numbers of a command, in the order of the contract; m of them to one outlet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.braking import Motion
from robo_rl_sim2real.messages.ee_pose import HandPoses
from robo_rl_sim2real.messages.kinds import Kind
from robo_rl_sim2real.messages.readings import Reading, Values, pick
from robo_rl_sim2real.messages.trajectory import FOLLOW


class Outlet(NamedTuple):
    """Where a command goes, or a part of it.

    Args:
        topic: On which topic.
        kind: By which interface.
        joints: (m,) names of joints or axes, in the controller's order.
        order: (m,) where each of them comes from among the numbers of a command.
        dt_s: Control period.
        hand: How poses are written, if that is what it takes.
        action: Whether ``topic`` is the name of an action, FollowJointTrajectory, whose goals
            commands are.
    """

    topic: str
    kind: Kind
    joints: tuple[str, ...]
    order: tuple[int, ...]
    dt_s: float
    hand: HandPoses = HandPoses()
    action: bool = False

    @property
    def interface(self) -> str:
        """Of the topic or action."""
        return FOLLOW if self.action else self.kind.value

    def reading(self, motion: Motion) -> Reading:
        """A command, each part of it (n,), as it is sent."""
        pos, vel = motion.pos[list(self.order)], motion.vel[list(self.order)]
        return _WRITE[self.kind](self, pos, vel)

    def values(self, reading: Reading) -> Values:
        """The positions (m,) that a command says.

        Raises:
            SpecError: It says none, or of other joints, or they are not finite.
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
        return pick(reading._replace(fields={"last": last}), "last", self.joints, self.topic)


_WRITE: dict[Kind, Callable[[Outlet, Values, Values], Reading]] = {
    Kind.ARRAY: lambda outlet, pos, _: Reading({"data": pos}, outlet.joints, 0.0),
    Kind.TRAJECTORY: lambda outlet, pos, _: outlet._points(pos),
    Kind.POSE: lambda outlet, pos, _: outlet.hand.pose(pos),
    Kind.TWIST: lambda outlet, pos, vel: outlet.hand.twist(
        pos, pos - vel * outlet.dt_s, outlet.dt_s
    ),
}
_READ: dict[Kind, Callable[[Outlet, Reading], Values]] = {
    Kind.ARRAY: lambda outlet, reading: reading.fields["data"],
    Kind.TRAJECTORY: lambda outlet, reading: outlet._last_point(reading),
    Kind.POSE: lambda outlet, reading: outlet.hand.numbers(reading, outlet.topic),
}
