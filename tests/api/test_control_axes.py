"""A hand that cannot be commanded is refused where it is described."""

from __future__ import annotations

from typing import Any

import pytest

from robo_rl.api.robot import Robot
from robo_rl.config.models import validate_strict
from robo_rl.config.registry import load
from robo_rl.core.errors import PluginError
from robo_rl.testing.robot import check_robot

PANDA = load("robots", "panda")


def described(**changes: Any) -> Robot:
    tree = PANDA.model_dump(mode="json")
    tree["end_effector"] = {**tree["end_effector"], **changes}
    robot = validate_strict(tree, Robot)
    robot._folder = PANDA._folder
    return robot


def axes(index: int, **changes: Any) -> list[dict[str, Any]]:
    found = [axis.model_dump(mode="json") for axis in PANDA.end_effector.axes]
    found[index] |= changes
    return found


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"axes": axes(0, unit="rad")}, "expected units m, m, m, rad, rad, rad"),
        ({"axes": axes(5, high=3.2)}, "expected less than pi"),
        ({"axes": axes(1, name="gripper")}, "axis names must be unique"),
        ({"axes": axes(1, name="panda_joint1")}, "axis names must be unique"),
        ({"axes": axes(2, home=0.9)}, "axis ee_z: expected low <= home <= high"),
        ({"upright": [0, 2, 0, 0]}, "length 1"),
    ],
)
def test_what_no_controller_could_follow_is_refused(changes: dict[str, Any], says: str):
    with pytest.raises(ValueError, match=says):
        described(**changes)


def test_what_can_be_commanded_has_one_name_each():
    names = [*PANDA.command_axes]
    assert names == [*PANDA.actuator_names, *PANDA.end_effector.names]


def test_a_home_that_is_not_that_of_the_joints_is_found():
    with pytest.raises(PluginError, match="end_effector: home is"):
        check_robot(described(axes=axes(0, home=0.56)))
