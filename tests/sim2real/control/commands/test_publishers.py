"""Which topics a command goes to, and what is read back of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl_sim2real.control.commands.braking import Limits, Motion
from robo_rl_sim2real.control.commands.publishers import (
    CommandConfig,
    CommandPublishers,
    PartlySentError,
    make_command_topics,
    position_indices,
)
from robo_rl_sim2real.control.commands.safety import Safety, SafetyInput
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.trajectory import FOLLOW
from robo_rl_sim2real.transport.base import COMMAND
from robo_rl_sim2real.transport.loopback import Bus, Loopback

ROBOT = load("robots", "panda")
JOINTS = tuple(joint.name for joint in ROBOT.actuated_joints)
HAND = (*ROBOT.end_effector.names, JOINTS[-1])
POS = np.array([0.5, 0.1, 0.3, 0.1, -0.2, 0.3, 0.02])
DT_S = 0.05


def made(names: tuple[str, ...], **fields: Any):
    return make_command_topics(validate_strict(fields, CommandConfig), ROBOT, names, DT_S)


def moving(pos: np.ndarray, vel: np.ndarray | None = None) -> Motion:
    zero = np.zeros_like(pos)
    return Motion(pos, zero if vel is None else vel, zero)


@pytest.mark.parametrize("kind", ["array", "trajectory", "follow_joint_trajectory"])
def test_joints_go_to_one_topic_in_the_order_of_its_controller(kind: str):
    (only,) = made(JOINTS, kind=kind, joints=JOINTS[::-1])
    pos = np.arange(8.0)
    np.testing.assert_array_equal(pos[list(only.indices)], pos[::-1])
    np.testing.assert_array_equal(only.positions_in(only.to_reading(moving(pos))), pos[::-1])


def test_goals_go_to_the_action_of_the_controller_that_takes_trajectories():
    bus, heard = Bus(lambda: 1.0), list[Reading]()
    (only,) = ways = made(JOINTS, kind="follow_joint_trajectory")
    assert (only.topic, only.interface) == (ROBOT.topics.follow_joint_trajectory, FOLLOW)
    expected = "/joint_trajectory_controller/follow_joint_trajectory"
    assert ROBOT.topics.follow_joint_trajectory == expected
    Loopback(bus).create_goal_server(ROBOT.topics.follow_joint_trajectory, heard.append)
    pos = np.arange(8.0)
    CommandPublishers(ways, Loopback(bus)).send(moving(pos))
    np.testing.assert_array_equal(only.positions_in(heard[0]), pos)
    np.testing.assert_array_equal(heard[0].fields["times"], [DT_S])
    assert (
        made(JOINTS, kind="follow_joint_trajectory", topic="/other/follow")[0].topic
        == "/other/follow"
    )


def test_a_hand_goes_to_its_controller_and_the_gripper_beside_it():
    hand, gripper = made(HAND, kind="pose")
    assert (hand.topic, hand.kind) == (ROBOT.topics.ee_pose_command, MsgType.POSE)
    assert (gripper.topic, gripper.kind) == (ROBOT.topics.gripper_command, MsgType.ARRAY)
    assert gripper.joints == (JOINTS[-1],)
    np.testing.assert_allclose(hand.positions_in(hand.to_reading(moving(POS))), POS[:6])
    np.testing.assert_array_equal(gripper.to_reading(moving(POS)).fields["data"], POS[6:])


def test_what_is_not_said_follows_from_what_is_commanded():
    assert made(JOINTS) == made(JOINTS, kind="array")
    assert made(HAND) == made(HAND, kind="pose")


def test_a_velocity_is_what_led_to_the_command_and_says_no_position():
    hand, _ = made(HAND, kind="twist")
    vel = np.array([0.1, 0.0, -0.2, 0.0, 0.0, 0.5, 0.0])
    before = POS - vel * DT_S
    said = hand.to_reading(moving(POS, vel))
    np.testing.assert_allclose(said.fields["linear"], vel[:3], atol=1e-12)
    np.testing.assert_allclose(
        hand.ee_axes.integrate_twist(before[:6], said, DT_S), POS[:6], atol=1e-12
    )
    np.testing.assert_array_equal(hand.to_reading(moving(POS)).fields["angular"], np.zeros(3))
    with pytest.raises(SpecError, match="says no positions"):
        hand.positions_in(said)


def test_the_gripper_hears_what_the_hand_does_not():
    now_s = [1.0]
    bus = Bus(lambda: now_s[0])
    us, robot, heard = Loopback(bus), Loopback(bus), list[Reading]()
    robot.subscribe(ROBOT.topics.gripper_command, MsgType.ARRAY, heard.append, COMMAND)
    hand, gripper = made(HAND)
    commands = CommandPublishers(
        [hand._replace(ee_axes=None), gripper], us
    )  # which it cannot write
    with pytest.raises(PartlySentError, match="AttributeError: "):
        commands.send(moving(POS))
    np.testing.assert_array_equal(heard[0].fields["data"], POS[6:])
    with pytest.raises(AttributeError):
        CommandPublishers([hand._replace(ee_axes=None)], us).send(moving(POS))


@pytest.mark.parametrize(
    ("names", "fields", "says"),
    [
        (JOINTS, {"kind": "pose"}, "expected array, trajectory or follow"),
        (HAND, {"kind": "array"}, "expected pose or twist"),
        (HAND[1:], {}, "a part of a pose"),
        (JOINTS, {"joints": JOINTS[:-1]}, "command.joints"),
        (JOINTS, {"gripper": "/grip"}, "command.gripper"),
        (HAND, {"joints": JOINTS}, "command.joints"),
        (HAND, {"topic": "/one", "gripper": "/one"}, "the hand's topic, too"),
        (HAND[:-1], {"gripper": "/grip"}, "command.gripper: the policy commands the hand alone"),
    ],
)
def test_an_interface_of_something_else_is_refused(names, fields, says):
    with pytest.raises(ConfigError, match=says):
        made(names, **fields)


def test_a_stop_takes_a_hand_that_is_told_velocities_no_further():
    """It goes by as much as commands change: to where it is measured it is already."""
    for kind in ("pose", "twist"):
        hand, _ = ways = made(HAND, kind=kind)
        low = np.array([axis.low for axis in (*ROBOT.end_effector.axes, ROBOT.actuated_joints[-1])])
        axes = (*ROBOT.end_effector.axes, ROBOT.actuated_joints[-1])
        high = np.array([axis.high for axis in axes])
        ones = np.ones(7)
        limits = Limits(low, high, ones, 5 * ones, 500 * ones, DT_S)
        safety = Safety(Safety.Config(), limits, POS, placed=position_indices(ways, 7))
        beside = POS - 0.05 * (high - low)
        at = beside[:6].copy()
        for tick in range(60):
            now_s = DT_S * tick
            asked = SafetyInput(None, np.append(at, beside[6]), now_s, now_s, now_s)
            asked = asked._replace(estop=True, is_standing=True)
            safety.step(asked, DT_S * tick)
            said = hand.to_reading(safety.limiter.motion)
            at = (
                hand.positions_in(said)
                if kind == "pose"
                else hand.ee_axes.integrate_twist(at, said, DT_S)
            )
        np.testing.assert_allclose(at, beside[:6], atol=1e-3)
