"""Input devices of a human: a leader arm, a gamepad, or end-effector velocities.

Shapes: n joints, in the order of the contract's actions.

A leader arm is followed relative to its pose when it takes over. Implausible input is not followed:
it is an error, so that the robot holds. A leader arm starts from a new reference pose once its
input is plausible again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from pydantic import Field, model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.plausibility import AxisLimits, PlausibilityCheck
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading, Values, select_by_name

_HUMAN = 4.0
"""Largest velocity that a human may request, in multiples of the robot's velocity limits."""
_FULL = 1.05
"""Largest plausible deflection of a gamepad's axis, which is nominally 1."""


class JointMapping(ConfigModel):
    """The input that moves a joint.

    Args:
        source: Joint of a leader arm.
        axis: Axis of a gamepad or twist, from 0; full deflection moves the joint by ``scale`` per
            second. Axes 0 to 2 of a twist are the linear velocity, 3 to 5 the angular velocity.
            Angular velocities count as rates of the rotation vector.
        scale: Factor of the leader's joint, or of the axis.
        offset: Offset of a leader's joint that is followed absolutely; needs ``relative`` false.
        relative: Whether a leader's joint is followed relative to its first position; false for a
            gripper.
    """

    source: str = ""
    axis: int = Field(default=-1, ge=-1)
    scale: float = 1.0
    offset: float = 0.0
    relative: bool = True

    @model_validator(mode="after")
    def _is_of_one_device(self) -> JointMapping:
        if self.offset and self.relative:
            raise ValueError("offset: needs relative=false")
        if self.axis >= 0 and (self.source or not self.relative):
            name = "source" if self.source else "relative=false"
            raise ValueError(f"{name}: is for a leader arm, and axis for a gamepad or twist")
        return self


class InputDevice(Protocol):
    """Turns the messages of a device into targets."""

    def on_reading(self, reading: Reading) -> None:
        """Process the last message, whether or not the switch is held."""
        ...

    def target(self, reading: Reading, stop: Callable[[], Values]) -> Values:
        """Return the target (n,)."""
        ...

    def release(self) -> None:
        """Forget the reference pose."""
        ...


class LeaderArm:
    """Joints that follow a leader arm's joints.

    Args:
        topic: Topic of the leader's joint states.
        joints: Joint → its input.
        names: (n,) joint names.
        limits: Limits of the robot.
        hand: Not used, since a leader's joints have no frame.
    """

    def __init__(
        self,
        topic: str,
        joints: Mapping[str, JointMapping],
        names: tuple[str, ...],
        limits: Limits,
        hand: EePoseAxes,
    ) -> None:
        del hand
        self._where, follows = topic, list(joints.values())
        self._moved = [names.index(name) for name in joints]
        self._sources = tuple(follow.source for follow in follows)
        self._scale = np.array([follow.scale for follow in follows])
        self._offset = np.array([follow.offset for follow in follows])
        self._relative = np.array([follow.relative for follow in follows])
        self._first: tuple[Values, Values] | None = None
        axes = _leader_axes(self._sources, limits, self._moved, self._scale)
        self._judge = PlausibilityCheck(PlausibilityCheck.Config(), axes, believed=True)

    def on_reading(self, reading: Reading) -> None:
        """See ``InputDevice``."""
        with contextlib.suppress(SpecError):  # ``target`` reports the error
            self._judge.check(reading, self._positions(reading), None, None)

    def target(self, reading: Reading, stop: Callable[[], Values]) -> Values:
        """See ``InputDevice``."""
        if not self._judge.believed:
            self.release()
            raise SpecError(self._judge.problem, where=self._where)
        led = self._scale * self._positions(reading)
        home, zero = self._first = self._first or (stop(), led)
        target = home.copy()
        relative = home[self._moved] + led - zero
        target[self._moved] = np.where(self._relative, relative, led + self._offset)
        return target

    def release(self) -> None:
        """See ``InputDevice``."""
        self._first = None

    def _positions(self, reading: Reading) -> Values:
        """Return the leader's positions in the order of ``joints``.

        Raises:
            SpecError: The message does not fit.
        """
        if not reading.names:  # the order would be the sender's
            raise SpecError("joint states without names", where=self._where)
        return select_by_name(reading, "position", self._sources, self._where)


class VelocityInput:
    """Joints that move at the velocity of input axes, clipped to the robot's limits.

    Args:
        topic: Topic of the gamepad or of the velocities.
        joints: Joint → its input.
        names: (n,) joint names.
        limits: Limits of the robot.
        hand: End-effector axes of the robot, whose frame velocities are in.
    """

    def __init__(
        self,
        topic: str,
        joints: Mapping[str, JointMapping],
        names: tuple[str, ...],
        limits: Limits,
        hand: EePoseAxes,
    ) -> None:
        self._where, self._limits, follows = topic, limits, list(joints.values())
        self._frame = hand
        self._moved = [names.index(name) for name in joints]
        self._axes = [follow.axis for follow in follows]
        self._scale = np.array([follow.scale for follow in follows])
        self._last: Values | None = None

    def on_reading(self, reading: Reading) -> None:
        """See ``InputDevice``; each message is judged by itself."""

    def target(self, reading: Reading, stop: Callable[[], Values]) -> Values:
        """See ``InputDevice``."""
        axes, limits = self._axes_of(reading), self._limits
        if len(axes) <= max(self._axes):
            raise SpecError(self._where, expected=f"{max(self._axes) + 1} axes", found=len(axes))
        vel = np.zeros_like(limits.velocity)
        vel[self._moved] = self._scale * axes[self._axes]
        self._demand_possible(axes[self._axes], vel, stick="axes" in reading.fields)
        last = stop() if self._last is None else self._last
        target = last + limits.dt_s * np.clip(vel, -limits.velocity, limits.velocity)
        self._last = np.clip(target, np.minimum(limits.low, last), np.maximum(limits.high, last))
        return self._last

    def release(self) -> None:
        """See ``InputDevice``."""
        self._last = None

    def _demand_possible(self, axes: Values, vel: Values, *, stick: bool) -> None:
        """Refuse implausible input, such as another unit or noise.

        Raises:
            SpecError: A deflection or velocity is out of range.
        """
        if stick and (np.abs(axes) > _FULL).any():
            raise SpecError("a deflection", where=self._where, expected="-1 to 1", found=axes)
        if not stick and (np.abs(vel) > _HUMAN * self._limits.velocity).any():
            expected = f"at most {_HUMAN:g} times the robot's limits"
            raise SpecError("a velocity", where=self._where, expected=expected, found=axes)

    def _axes_of(self, reading: Reading) -> Values:
        parts = ("axes",) if "axes" in reading.fields else ("linear", "angular")
        if "linear" in parts:
            self._frame.check_frame(reading, self._where)
        return np.concatenate([select_by_name(reading, part, (), self._where) for part in parts])


def _leader_axes(
    names: tuple[str, ...], limits: Limits, moved: list[int], scale: Values
) -> AxisLimits:
    """Return the limits of a leader's joints: unknown position limits, human speed."""
    size = np.maximum(np.abs(scale), 1e-9)
    span = (limits.high - limits.low)[moved] / size
    far = np.full(len(names), np.inf)
    free = np.ones(len(names), bool)
    return AxisLimits(names, -far, far, _HUMAN * limits.velocity[moved] / size, far, span, free)


DEVICES: dict[MsgType, type[LeaderArm] | type[VelocityInput]] = {
    MsgType.JOINT_STATES: LeaderArm,
    MsgType.JOY: VelocityInput,
    MsgType.TWIST: VelocityInput,
}
"""Interface → its device."""
