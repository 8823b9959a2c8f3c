"""Where commands go, and how they are written there.

Shapes: n numbers of a command, in the order of the contract; m of them to one outlet; P control
periods of a course, which is the command and how it would come to rest (``braking.course``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl.errors import SpecError
from robo_rl_sim2real.braking import Motion
from robo_rl_sim2real.hand import HandPoses
from robo_rl_sim2real.messages import Kind
from robo_rl_sim2real.readings import Reading, Values, pick
from robo_rl_sim2real.trajectory_messages import FOLLOW


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

    def reading(self, course: Motion) -> Reading:
        """A command as it is sent: its course, each part of it (P, n)."""
        order = list(self.order)
        return _WRITE[self.kind](self, course.pos[:, order], course.vel[:, order])

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

    def _points(self, pos: Values, vel: Values) -> Reading:
        times = self.dt_s * np.arange(1, len(pos) + 1)
        return Reading({"positions": pos, "velocities": vel, "times": times}, self.joints, 0.0)

    def _next_point(self, reading: Reading) -> Values:
        """Where a trajectory wants to be a period later; the point after it where none is then."""
        if sorted(reading.names) != sorted(self.joints):
            expected, found = ", ".join(self.joints), ", ".join(reading.names)
            raise SpecError(f"{self.topic}: command", expected=expected, found=found)
        if not len(reading.fields["times"]):
            raise SpecError(f"{self.topic}: command", expected="a point", found="none")
        times = reading.fields["times"]
        at = min(int(np.searchsorted(times, self.dt_s - 1e-6)), len(times) - 1)
        fields = {"next": reading.fields["positions"][at]}
        return pick(reading._replace(fields=fields), "next", self.joints, self.topic)


_WRITE: dict[Kind, Callable[[Outlet, Values, Values], Reading]] = {
    Kind.ARRAY: lambda outlet, pos, _: Reading({"data": pos[0]}, outlet.joints, 0.0),
    Kind.TRAJECTORY: lambda outlet, pos, vel: outlet._points(pos, vel),
    Kind.POSE: lambda outlet, pos, _: outlet.hand.pose(pos[0]),
    Kind.TWIST: lambda outlet, pos, vel: outlet.hand.twist(
        pos[0], pos[0] - vel[0] * outlet.dt_s, outlet.dt_s
    ),
}
_READ: dict[Kind, Callable[[Outlet, Reading], Values]] = {
    Kind.ARRAY: lambda outlet, reading: reading.fields["data"],
    Kind.TRAJECTORY: lambda outlet, reading: outlet._next_point(reading),
    Kind.POSE: lambda outlet, reading: outlet.hand.numbers(reading, outlet.topic),
}
