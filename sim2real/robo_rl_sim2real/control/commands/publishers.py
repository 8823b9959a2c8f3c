"""Assigns the values of a command to topics and publishes them.

Shapes: n values of a command, in the order of the contract.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robo_rl.api.robot import Robot
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError, RoboRlError
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType, TopicName
from robo_rl_sim2real.transport.base import NEWEST, AnsweredPublisher, Publisher, Transport

_HAND = {"pose": MsgType.POSE, "twist": MsgType.TWIST}


class PartlySentError(RoboRlError):
    """A command of which some topics were sent and others were not."""


class CommandPublishers:
    """Publishes commands on their topics.

    Args:
        outlets: Topics of the command.
        transport: Transport that they are published with.
    """

    def __init__(self, outlets: Iterable[CommandTopic], transport: Transport) -> None:
        self._ways = [(outlet, _publisher(outlet, transport)) for outlet in outlets]

    def with_kind(self, kind: MsgType) -> CommandPublishers:
        """Return only the parts of this interface, on the same publishers."""
        return CommandPublishers._of([(each, way) for each, way in self._ways if each.kind is kind])

    @property
    def answered(self) -> dict[str, AnsweredPublisher]:
        """Action → its publisher, of those whose receivers answer."""
        return {
            outlet.topic: way for outlet, way in self._ways if isinstance(way, AnsweredPublisher)
        }

    @classmethod
    def _of(cls, ways: list[tuple[CommandTopic, Publisher]]) -> CommandPublishers:
        made = cls.__new__(cls)
        made._ways = ways
        return made

    def send(self, motion: Motion) -> None:
        """Publish one command, each field of the motion (n,).

        Raises:
            PartlySentError: A part failed, and another was sent; it names the part's error.
            Exception: The first error, if no part was sent.
        """
        errors = list[Exception]()
        for outlet, publisher in self._ways:
            try:
                publisher.send(outlet.to_reading(motion))
            except Exception as error:  # a gripper must receive a stop that the arm does not
                errors.append(error)
        if errors and len(errors) < len(self._ways):
            raise PartlySentError(f"{type(errors[0]).__name__}: {errors[0]}") from errors[0]
        if errors:
            raise errors[0]


def _publisher(outlet: CommandTopic, transport: Transport) -> Publisher:
    if outlet.action:
        return transport.create_goal_publisher(outlet.topic)
    return transport.create_publisher(outlet.topic, outlet.kind, NEWEST)


class CommandConfig(ConfigModel):
    """Where commands are sent.

    Args:
        kind: Interface. For joints: the array of a position controller, a trajectory of one point,
            or such trajectories as goals of the action FollowJointTrajectory. For the end effector:
            a pose for a Cartesian controller, or the velocity that leads to the pose. Empty for the
            first that fits the policy's commands.
        topic: Topic, or name of the action; empty for the robot's.
        joints: Order of the controller's joints in an array; empty for the policy's.
        gripper: Topic of the array of the axes beside the end effector; empty for the robot's.
        exclusive: Whether the policy neither starts nor continues while another node publishes
            there.
    """

    kind: Literal["", "array", "trajectory", "follow_joint_trajectory", "pose", "twist"] = ""
    topic: TopicName = ""
    joints: tuple[str, ...] = ()
    gripper: TopicName = ""
    exclusive: bool = True


def make_command_topics(
    out: CommandConfig, robot: Robot, names: tuple[str, ...], dt_s: float
) -> tuple[CommandTopic, ...]:
    """Return the topics that together carry a command.

    Args:
        out: The settings.
        robot: The commanded robot.
        names: Commanded joints and axes, in the order of a command.
        dt_s: Control period.

    Raises:
        ConfigError: The interface does not fit the commanded joints or end effector, ``joints`` has
            other names, end-effector axes are missing, or a setting is unused.
    """
    hand = EePoseAxes.of(robot)
    moved = [name for name in names if name in hand.names]
    if moved:
        _demand(out.kind, ("pose", "twist"), "the hand")
        _demand_unset("joints", out.joints, "the hand")
        if tuple(sorted(moved)) != tuple(sorted(hand.names)):
            expected, found = ", ".join(hand.names), ", ".join(moved)
            raise ConfigError("a part of a pose is commanded", expected=expected, found=found)
        return _to_hand(out, robot, hand, names, dt_s)
    _demand(out.kind, ("array", "trajectory", "follow_joint_trajectory"), "joints")
    _demand_unset("gripper", out.gripper, "joints")
    wanted = out.joints or names
    if sorted(wanted) != sorted(names):
        raise ConfigError("command.joints", expected=", ".join(names), found=", ".join(wanted))
    if out.kind in ("", "array"):
        return (_array(out.topic or robot.topics.command, wanted, names, dt_s),)
    action, order = out.kind == "follow_joint_trajectory", _order(wanted, names)
    topic = out.topic or (
        robot.topics.follow_joint_trajectory if action else robot.topics.trajectory
    )
    return (CommandTopic(topic, MsgType.TRAJECTORY, tuple(wanted), order, dt_s, action=action),)


def _demand(kind: str, fitting: tuple[str, ...], what: str) -> None:
    if kind and kind not in fitting:
        *others, last = fitting
        expected = f"{', '.join(others)} or {last}, for the policy commands {what}"
        raise ConfigError("command.kind", expected=expected, found=kind)


def _demand_unset(field: str, value: object, what: str) -> None:
    if value:
        raise ConfigError(f"command.{field}: the policy commands {what}", expected="nothing")


def position_indices(ways: Iterable[CommandTopic], size: int) -> NDArray[np.bool_]:
    """Return (n,) bool, which values of a command are positions; those of a twist are not."""
    found = np.ones(size, bool)
    for way in ways:
        found[list(way.indices)] = way.kind is not MsgType.TWIST
    return found


def _to_hand(
    out: CommandConfig, robot: Robot, hand: EePoseAxes, names: tuple[str, ...], dt_s: float
) -> tuple[CommandTopic, ...]:
    kind = _HAND[out.kind or "pose"]
    own = robot.topics.ee_pose_command if kind is MsgType.POSE else robot.topics.ee_twist_command
    order = _order(hand.names, names)
    first = CommandTopic(out.topic or own, kind, hand.names, order, dt_s, hand)
    rest = [name for name in names if name not in hand.names]
    if not rest:
        _demand_unset("gripper", out.gripper, "the hand alone")
        return (first,)
    topic = out.gripper or robot.topics.gripper_command
    if topic == first.topic:
        raise ConfigError("command.gripper: the hand's topic, too", found=topic)
    return first, _array(topic, rest, names, dt_s)


def _array(
    topic: str, wanted: list[str] | tuple[str, ...], names: tuple[str, ...], dt_s: float
) -> CommandTopic:
    return CommandTopic(topic, MsgType.ARRAY, tuple(wanted), _order(wanted, names), dt_s)


def _order(wanted: list[str] | tuple[str, ...], names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(names.index(name) for name in wanted)
