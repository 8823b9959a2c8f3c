"""Which topics the numbers of a command go to.

Shapes: n numbers of a command, in the order of the contract.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robo_rl.api.robot import Robot
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.control.commands.topic import CommandTopic
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.kinds import MsgType, TopicName
from robo_rl_sim2real.transport.base import NEWEST, Publisher, Transport

_HAND = {"pose": MsgType.POSE, "twist": MsgType.TWIST}


class CommandPublishers:
    """Where commands are sent from.

    Args:
        outlets: Where they go.
        transport: By which way.
    """

    def __init__(self, outlets: Iterable[CommandTopic], transport: Transport) -> None:
        self._ways = [(outlet, _publisher(outlet, transport)) for outlet in outlets]

    def with_kind(self, kind: MsgType) -> CommandPublishers:
        """Those parts of commands that are sent by that interface, on the same publishers."""
        return CommandPublishers._of([(each, way) for each, way in self._ways if each.kind is kind])

    @classmethod
    def _of(cls, ways: list[tuple[CommandTopic, Publisher]]) -> CommandPublishers:
        made = cls.__new__(cls)
        made._ways = ways
        return made

    def send(self, motion: Motion) -> None:
        """One command, each part of it (n,).

        Raises:
            Exception: The first that a part of it met; the other parts have been sent.
        """
        errors = list[Exception]()
        for outlet, publisher in self._ways:
            try:
                publisher.send(outlet.to_reading(motion))
            except Exception as error:  # a gripper must hear of a stop that the arm does not
                errors.append(error)
        if errors:
            raise errors[0]


def _publisher(outlet: CommandTopic, transport: Transport) -> Publisher:
    if outlet.action:
        return transport.create_goal_publisher(outlet.topic)
    return transport.create_publisher(outlet.topic, outlet.kind, NEWEST)


class CommandConfig(ConfigModel):
    """Where commands go.

    Args:
        kind: Of joints: a position controller's array, a trajectory of one point, or such
            trajectories as goals of the action FollowJointTrajectory. Of the hand: a pose for a
            Cartesian controller, or the velocity that leads there. Empty for the first of what the
            policy commands.
        topic: Or the action's name; empty for the robot's.
        joints: Order of the controller's joints in an array; empty for the policy's.
        gripper: Topic of the array of what is commanded beside the hand; empty for the robot's.
        exclusive: Whether nobody else may publish there when the policy begins.
    """

    kind: Literal["", "array", "trajectory", "follow_joint_trajectory", "pose", "twist"] = ""
    topic: TopicName = ""
    joints: tuple[str, ...] = ()
    gripper: TopicName = ""
    exclusive: bool = True


def make_command_topics(
    out: CommandConfig, robot: Robot, names: tuple[str, ...], dt_s: float
) -> tuple[CommandTopic, ...]:
    """Where a command goes, all of it.

    Args:
        out: The settings.
        robot: It is for.
        names: Joints and axes that are commanded, in the order of a command.
        dt_s: Control period.

    Raises:
        ConfigError: A hand is commanded by an interface of joints or the other way around, or
            ``joints`` are others, some axes of a hand are missing, or what is set is not used.
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
    """(n,) which numbers of a command go where it says; those of a velocity do not."""
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
    topic = out.gripper or robot.topics.gripper_command
    if topic == first.topic:
        raise ConfigError("command.gripper: the hand's topic, too", found=topic)
    return (first, *([_array(topic, rest, names, dt_s)] if rest else []))


def _array(
    topic: str, wanted: list[str] | tuple[str, ...], names: tuple[str, ...], dt_s: float
) -> CommandTopic:
    return CommandTopic(topic, MsgType.ARRAY, tuple(wanted), _order(wanted, names), dt_s)


def _order(wanted: list[str] | tuple[str, ...], names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(names.index(name) for name in wanted)
