"""Teleoperation: a human controls the robot while a deadman switch is held.

Shapes: n joints, in the order of the contract's actions. Times are in seconds of one monotonic
clock.

The human's target passes the same safety checks as the policy's target. It starts where the robot
comes to rest by itself. A leader arm is followed relative to its pose at that time, so taking over
causes no motion. Implausible input of a leader arm or stick is not followed: the robot holds. A
leader arm starts from a new reference pose once its input is plausible again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.plausibility import AxisLimits, PlausibilityCheck
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType, TopicName
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values, select_by_name

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
        offset: Offset of a leader's joint that is followed absolutely.
        relative: Whether a leader's joint is followed relative to its first position; false for a
            gripper.
    """

    source: str = ""
    axis: int = Field(default=-1, ge=-1)
    scale: float = 1.0
    offset: float = 0.0
    relative: bool = True


class TeleopInput(NamedTuple):
    """The present input of the human.

    Args:
        held: Whether the switch is held, by its last message.
        target: (n,) target; None if the switch is not held or the input has timed out.
        received_s: Arrival time of the oldest message in use.
    """

    held: bool
    target: Values | None
    received_s: float


class Teleop:
    """Reads the human's input.

    Args:
        cfg: See Config.
        names: (n,) joint names.
        limits: Limits of the robot.
        hand: End-effector axes of the robot, whose frame velocities are in.

    Raises:
        ConfigError: A joint is unknown or has no source, or there is no switch.
    """

    class Config(ConfigModel):
        """Teleoperation input.

        Args:
            topic: Topic of a leader arm's joint states, a gamepad, or end-effector velocities;
                empty for no teleoperation.
            msg_type: ``sensor_msgs/msg/JointState``, ``sensor_msgs/msg/Joy`` or
                ``geometry_msgs/msg/TwistStamped``.
            joints: Joint → its input; other joints stay.
            deadman: Topic of the switch, ``std_msgs/msg/Bool``, published repeatedly.
            deadman_button: Button of the gamepad that is the switch, from 0.
            timeout_s: Age of the last message beyond which a teleoperated robot holds.
        """

        topic: TopicName = ""
        msg_type: MsgType = MsgType.JOINT_STATES
        joints: dict[str, JointMapping] = Field(default_factory=dict)
        deadman: TopicName = ""
        deadman_button: int = Field(default=-1, ge=-1)
        timeout_s: float = Field(default=0.2, gt=0.0)

    def __init__(
        self,
        cfg: Config,
        names: tuple[str, ...],
        limits: Limits,
        hand: EePoseAxes = EePoseAxes(),  # noqa: B008  a constant
    ) -> None:
        self.cfg = cfg
        if cfg.topic:
            _check(cfg, names)
        self._hand = _HANDS[cfg.msg_type](cfg, names, limits, hand) if cfg.topic else None

    @property
    def topics(self) -> dict[str, MsgType]:
        """Subscribed topics and their interfaces."""
        switch = {self.cfg.deadman: MsgType.FLAG} if self.cfg.deadman else {}
        return {self.cfg.topic: self.cfg.msg_type, **switch} if self._hand else {}

    def read(self, inbox: Inbox, now_s: float, stop: Callable[[], Values]) -> TeleopInput:
        """Return the human's input for a robot that would come to rest at ``stop()`` (n,).

        Raises:
            SpecError: A message does not fit.
        """
        said = inbox.get(self.cfg.topic)
        if self._hand is not None and said is not None:
            self._hand.on_reading(said)
        switch = inbox.get(self.cfg.deadman) if self.cfg.deadman else said
        if self._hand is None or switch is None or not self._pressed(switch):
            self.release()
            return TeleopInput(held=False, target=None, received_s=now_s)
        heard_s = switch.stamp_s if said is None else min(switch.stamp_s, said.stamp_s)
        if said is None or now_s - heard_s > self.cfg.timeout_s:
            self.release()
            return TeleopInput(held=True, target=None, received_s=heard_s)
        return TeleopInput(held=True, target=self._hand.target(said, stop), received_s=heard_s)

    def _pressed(self, switch: Reading) -> bool:
        if self.cfg.deadman:
            return bool(switch.fields["data"])
        buttons = switch.fields["buttons"]
        return self.cfg.deadman_button < len(buttons) and bool(buttons[self.cfg.deadman_button])

    def release(self) -> None:
        """Forget the reference pose; the next target starts from the robot's present motion."""
        if self._hand is not None:
            self._hand.release()


class _InputDevice(Protocol):
    def on_reading(self, reading: Reading) -> None:
        """Process the last message, whether or not the switch is held."""
        ...

    def target(self, reading: Reading, stop: Callable[[], Values]) -> Values:
        """Return the target (n,)."""
        ...

    def release(self) -> None:
        """Forget the reference pose."""
        ...


class _LeaderArm:
    """Joints that follow a leader arm's joints."""

    def __init__(
        self, cfg: Teleop.Config, names: tuple[str, ...], limits: Limits, hand: EePoseAxes
    ) -> None:
        del hand
        self._where, follows = cfg.topic, list(cfg.joints.values())
        self._moved = [names.index(name) for name in cfg.joints]
        self._sources = tuple(follow.source for follow in follows)
        self._scale = np.array([follow.scale for follow in follows])
        self._offset = np.array([follow.offset for follow in follows])
        self._relative = np.array([follow.relative for follow in follows])
        self._first: tuple[Values, Values] | None = None
        axes = _leader_axes(self._sources, limits, self._moved, self._scale)
        self._judge = PlausibilityCheck(PlausibilityCheck.Config(), axes, believed=True)

    def on_reading(self, reading: Reading) -> None:
        with contextlib.suppress(SpecError):  # ``target`` reports the error
            self._judge.check(reading, self._positions(reading), None, None)

    def target(self, reading: Reading, stop: Callable[[], Values]) -> Values:
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
        self._first = None

    def _positions(self, reading: Reading) -> Values:
        """Return the leader's positions in the order of ``cfg.joints``.

        Raises:
            SpecError: The message does not fit.
        """
        if not reading.names:  # the order would be the sender's
            raise SpecError("joint states without names", where=self._where)
        return select_by_name(reading, "position", self._sources, self._where)


class _VelocityInput:
    """Joints that move at the velocity of input axes, clipped to the robot's limits."""

    def __init__(
        self, cfg: Teleop.Config, names: tuple[str, ...], limits: Limits, hand: EePoseAxes
    ) -> None:
        self._where, self._limits, follows = cfg.topic, limits, list(cfg.joints.values())
        self._frame = hand
        self._moved = [names.index(name) for name in cfg.joints]
        self._axes = [follow.axis for follow in follows]
        self._scale = np.array([follow.scale for follow in follows])
        self._last: Values | None = None

    def on_reading(self, reading: Reading) -> None:
        pass

    def target(self, reading: Reading, stop: Callable[[], Values]) -> Values:
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


_HANDS = {
    MsgType.JOINT_STATES: _LeaderArm,
    MsgType.JOY: _VelocityInput,
    MsgType.TWIST: _VelocityInput,
}


def _check(cfg: Teleop.Config, names: tuple[str, ...]) -> None:
    if cfg.msg_type not in _HANDS:
        known = ", ".join(kind.value for kind in _HANDS)
        raise ConfigError("teleop.msg_type", expected=known, found=cfg.msg_type.value)
    pad, moves = cfg.msg_type is MsgType.JOY, cfg.msg_type is not MsgType.JOINT_STATES
    if not cfg.deadman and not (pad and cfg.deadman_button >= 0):
        what = "deadman, a topic of the switch" + (", or deadman_button" if pad else "")
        raise ConfigError("teleop: nothing says whether the human has taken over", expected=what)
    if not cfg.joints:
        raise ConfigError("teleop.joints: nothing is moved", expected=", ".join(names))
    for name, follow in cfg.joints.items():
        if name not in names:
            raise ConfigError(
                f"teleop.joints.{name}: no such joint", hint=did_you_mean(name, names)
            )
        if (follow.axis < 0) if moves else not follow.source:
            raise ConfigError(f"teleop.joints.{name}", expected="axis" if moves else "source")
