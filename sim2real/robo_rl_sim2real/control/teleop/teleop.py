"""Teleoperation: a human controls the robot while a deadman switch is held.

Shapes: n joints, in the order of the contract's actions. Times are in seconds of one monotonic
clock.

The human's target passes the same safety checks as the policy's target. It starts where the robot
comes to rest by itself, so taking over causes no motion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pydantic import Field, model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.control.commands.braking import Limits
from robo_rl_sim2real.control.teleop.input_devices import DEVICES, InputDevice, JointMapping
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType, TopicName
from robo_rl_sim2real.messages.readings import Inbox, Reading, Values


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

        @model_validator(mode="after")
        def _has_effect(self) -> Teleop.Config:
            if not self.topic:
                return self  # an override that turns teleoperation off
            if self.deadman_button >= 0 and self.msg_type is not MsgType.JOY:
                raise ValueError(f"deadman_button: needs msg_type {MsgType.JOY.value}")
            if self.deadman_button >= 0 and self.deadman:
                raise ValueError("deadman_button: the switch is the topic deadman already")
            return self

    def __init__(
        self,
        cfg: Config,
        names: tuple[str, ...],
        limits: Limits,
        hand: EePoseAxes = EePoseAxes(),  # noqa: B008  a constant
    ) -> None:
        self.cfg = cfg
        self._device: InputDevice | None = None
        if cfg.topic:
            _check(cfg, names)
            self._device = DEVICES[cfg.msg_type](cfg.topic, cfg.joints, names, limits, hand)

    @property
    def topics(self) -> dict[str, MsgType]:
        """Subscribed topics and their interfaces."""
        switch = {self.cfg.deadman: MsgType.FLAG} if self.cfg.deadman else {}
        return {self.cfg.topic: self.cfg.msg_type, **switch} if self._device else {}

    def read(self, inbox: Inbox, now_s: float, stop: Callable[[], Values]) -> TeleopInput:
        """Return the human's input for a robot that would come to rest at ``stop()`` (n,).

        Raises:
            SpecError: A message does not fit.
        """
        said = inbox.get(self.cfg.topic)
        if self._device is not None and said is not None:
            self._device.on_reading(said)
        switch = inbox.get(self.cfg.deadman) if self.cfg.deadman else said
        if self._device is None or switch is None or not self._pressed(switch):
            self.release()
            return TeleopInput(held=False, target=None, received_s=now_s)
        heard_s = switch.stamp_s if said is None else min(switch.stamp_s, said.stamp_s)
        if said is None or now_s - heard_s > self.cfg.timeout_s:
            self.release()
            return TeleopInput(held=True, target=None, received_s=heard_s)
        return TeleopInput(held=True, target=self._device.target(said, stop), received_s=heard_s)

    def _pressed(self, switch: Reading) -> bool:
        if self.cfg.deadman:
            return bool(switch.fields["data"])
        buttons = switch.fields["buttons"]
        return self.cfg.deadman_button < len(buttons) and bool(buttons[self.cfg.deadman_button])

    def release(self) -> None:
        """Forget the reference pose; the next target starts from the robot's present motion."""
        if self._device is not None:
            self._device.release()


def _check(cfg: Teleop.Config, names: tuple[str, ...]) -> None:
    if cfg.msg_type not in DEVICES:
        known = ", ".join(kind.value for kind in DEVICES)
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
