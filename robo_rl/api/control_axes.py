"""The commandable quantities of a robot: its joints and the axes of its end effector.

Each is one number with limits, so that one safety filter covers all of them.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from robo_rl.config.models import ConfigModel


class CommandAxis(ConfigModel):
    """One commanded number; lengths are in m where ``unit`` is ``"m"``, angles in rad otherwise.

    Args:
        name: Its name on ROS topics and in specs.
        low: Lower limit.
        high: Upper limit.
        max_velocity: Largest speed, per second. The simulator does not enforce it; tasks and the
            safety filter do.
        max_acceleration: Largest acceleration of the command, per second squared; the safety
            filter enforces it.
        max_jerk: Largest jerk of the command, per second cubed; the safety filter enforces it.
        home: Position at home.
        unit: ``"rad"`` or ``"m"``.
    """

    name: str
    low: float
    high: float
    max_velocity: float = Field(gt=0)
    max_acceleration: float = Field(default=5.0, gt=0)
    max_jerk: float = Field(default=500.0, gt=0)
    home: float
    unit: Literal["rad", "m"] = "rad"

    @model_validator(mode="after")
    def _home_within_limits(self) -> CommandAxis:
        if not self.low <= self.home <= self.high or self.low == self.high:
            kind = type(self).__name__.lower()
            raise ValueError(f"{kind} {self.name}: expected low <= home <= high and low < high")
        return self


class Joint(CommandAxis):
    """A joint; forces are in N where ``unit`` is ``"m"``, torques in N m otherwise.

    Args:
        max_torque: Largest torque or force of its actuator; joints that mimic it share it.
        actuator: Name of its actuator; the joint's own name where empty.
        mimic: Name of the joint that it follows one to one; it then has no actuator.
    """

    max_torque: float = Field(gt=0)
    actuator: str = ""
    mimic: str = ""


class EndEffectorAxes(ConfigModel):
    """The six axes along which a Cartesian controller commands the end effector.

    The pose is the position in the base frame and a rotation vector r in the base frame. r turns
    the orientation ``upright`` into the current one: R = exp([r]) R(upright). Rotations within
    the limits stay below π, so that every orientation has one r. Because |ω| <= |dr/dt|, a limit
    on the rate of r also limits the angular velocity. Limits apply to each axis separately; to
    bound the length of a vector, divide the bound by the root of 3.

    Args:
        axes: x, y, z in m, then the rotation vector's x, y, z in rad.
        upright: Orientation of the end effector at r = 0, wxyz.

    Source: the inequality follows from the right Jacobian of SO(3), which has the singular values
    1 and 2 sin(|r|/2) / |r| (Chirikjian, "Stochastic Models, Information Theory, and Lie
    Groups", vol. 2, sec. 10.7).
    """

    axes: tuple[CommandAxis, CommandAxis, CommandAxis, CommandAxis, CommandAxis, CommandAxis]
    upright: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the six axes."""
        return tuple(axis.name for axis in self.axes)

    @model_validator(mode="after")
    def _one_turn_an_orientation(self) -> EndEffectorAxes:
        units = tuple(axis.unit for axis in self.axes)
        if units != ("m",) * 3 + ("rad",) * 3:
            raise ValueError(
                f"end_effector.axes: expected units m, m, m, rad, rad, rad, found {units}"
            )
        largest = math.hypot(*(max(abs(axis.low), abs(axis.high)) for axis in self.axes[3:]))
        if largest >= math.pi:
            raise ValueError(
                f"end_effector.axes: turns of up to {largest:.3g} rad, expected less than pi"
            )
        if abs(math.hypot(*self.upright) - 1.0) > 1e-6:
            raise ValueError("end_effector.upright: expected a quaternion of length 1")
        return self
