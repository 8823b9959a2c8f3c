"""A leader arm is followed from where both were, axes are speeds, and nonsense is told."""

from __future__ import annotations

import numpy as np
import pytest
from small_limits import JOINTS, limits
from small_robot import NAMES

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.control.teleop.input_devices import JointMapping, LeaderArm, VelocityInput
from robo_rl_sim2real.messages.ee_pose import EePoseAxes
from robo_rl_sim2real.messages.readings import Reading

HAND = EePoseAxes()


def leader() -> LeaderArm:
    joints = {
        "joint3": JointMapping(source="a", scale=0.5),
        "joint0": JointMapping(source="b", relative=False, offset=0.1),
    }
    return LeaderArm("/leader", joints, NAMES, limits(), HAND)


def stick(scale: float = 0.4) -> VelocityInput:
    joints = {"joint1": JointMapping(axis=1, scale=scale)}
    return VelocityInput("/joy", joints, NAMES, limits(), HAND)


def led(a: float, b: float = 0.0, stamp_s: float = 1.0) -> Reading:
    return Reading({"position": np.array([b, a])}, ("b", "a"), stamp_s)


def deflected(*axes: float) -> Reading:
    return Reading({"axes": np.array(axes)}, (), 1.0)


def rest() -> np.ndarray:
    return np.full(JOINTS, 0.2)


def test_a_relative_joint_begins_where_the_robot_rests_and_an_absolute_one_is_followed():
    arm = leader()
    np.testing.assert_allclose(arm.target(led(5.0, 0.3), rest), [0.4, 0.2, 0.2, 0.2, 0.2])
    np.testing.assert_allclose(arm.target(led(5.4, 0.3), rest), [0.4, 0.2, 0.2, 0.4, 0.2])
    arm.release()
    np.testing.assert_allclose(arm.target(led(5.4, 0.3), rest), [0.4, 0.2, 0.2, 0.2, 0.2])


def test_a_leader_that_jumps_is_not_followed():
    arm = leader()
    for i in range(20):
        arm.on_reading(led(0.0, stamp_s=1.0 + 0.02 * i))
    arm.on_reading(led(3.0, stamp_s=1.4))
    with pytest.raises(SpecError, match="moved farther than it can: 'a'"):
        arm.target(led(3.0, stamp_s=1.4), rest)


def test_a_leader_without_names_is_told_only_when_it_is_followed():
    arm, reading = leader(), Reading({"position": np.zeros(2)}, (), 1.0)
    arm.on_reading(reading)
    with pytest.raises(SpecError, match="joint states without names"):
        arm.target(reading, rest)


def test_an_axis_is_a_velocity_up_to_the_limits_of_the_joint():
    pad, bounds = stick(scale=50.0), limits()
    pos = [pad.target(deflected(0.0, 1.0), rest)[1] for _ in range(3)]
    step = bounds.dt_s * bounds.velocity[1]
    np.testing.assert_allclose(pos, 0.2 + step * np.arange(1, 4))
    pad.release()
    assert pad.target(deflected(0.0, 0.0), rest)[1] == 0.2


@pytest.mark.parametrize(
    ("reading", "says"),
    [
        (deflected(0.0), "2 axes"),
        (deflected(0.0, 1.5), "a deflection"),
        (Reading({"linear": np.array([0.0, 90.0, 0.0]), "angular": np.zeros(3)}, (), 1.0), "a vel"),
    ],
)
def test_input_that_cannot_be_meant_is_told(reading: Reading, says: str):
    with pytest.raises(SpecError, match=says):
        stick().target(reading, rest)
