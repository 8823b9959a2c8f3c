"""Every robot that comes with the library conforms, and the suite notices one that does not."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from robo_rl.api.robot import Robot
from robo_rl.api.robot_mjcf import is_origin
from robo_rl.core.errors import PluginError, RoboRlError
from robo_rl.testing.robot import check_robot

pytest.importorskip("mujoco")


def load(name: str) -> Robot:
    return EntryPoint(name, f"robo_rl_robots:{name}", "robo_rl.robots").load()


@pytest.mark.parametrize("name", ["panda", "so101"])
def test_robot_conforms(name: str) -> None:
    check_robot(load(name))


@pytest.mark.parametrize(("name", "low", "high"), [("panda", 17.0, 19.0), ("so101", 0.5, 0.8)])
def test_total_mass_is_that_of_the_machine(name: str, low: float, high: float) -> None:
    assert low < load(name).spec().compile().body_mass.sum() < high


def test_unknown_robot_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="pandaa"):
        load("pandaa")


def sabotaged(robot: Robot, **update: object) -> Robot:
    """The robot with its first joint or its control changed."""
    if set(update) <= set(robot.control.model_fields_set):
        return robot.model_copy(update={"control": robot.control.model_copy(update=update)})
    first = robot.joints[0].model_copy(update=update)
    return robot.model_copy(update={"joints": (first, *robot.joints[1:])})


@pytest.mark.parametrize(
    ("update", "complaint"),
    [
        ({"high": 3.0}, "range of panda_joint1"),
        ({"unit": "m"}, "joint 'panda_joint1' is a hinge"),
        ({"name": "joint_1"}, "joints differ"),
        ({"gravity_compensation": False}, "home drifts"),
        ({"kp": (0.1,) * 8, "kd": (90.0,) * 8}, "moved by"),
    ],
)
def test_suite_notices_a_robot_that_does_not_conform(
    update: dict[str, object], complaint: str
) -> None:
    with pytest.raises(RoboRlError, match=complaint):
        check_robot(sabotaged(load("panda"), **update))


@pytest.mark.parametrize(
    ("quat", "same"), [((-1.0, 0, 0, 0), True), ((1.0, 0, 0, 0), True), ((0.0, 0, 0, 1), False)]
)
def test_a_quaternion_and_its_opposite_are_one_rotation(
    quat: tuple[float, ...], same: bool
) -> None:
    assert is_origin(np.array([0.0, 0, 0, *quat])) is same
    assert not is_origin(np.array([0.0, 0.4, 0, *quat]))


@pytest.mark.parametrize(
    ("part", "instead", "complaint"),
    [
        ('contype="2"', 'contype="1"', "meet each other"),
        (
            '<body name="panda_link0"',
            '<body pos="0 0 .4" name="panda_link0"',
            "the base must be the origin",
        ),
        (
            '<body name="panda_link0"',
            '<body quat="0 0 0 1" name="panda_link0"',
            "the base must be the origin",
        ),
    ],
)
def test_suite_notices_what_is_wrong_in_the_model(
    tmp_path, part: str, instead: str, complaint: str
) -> None:
    panda = load("panda")
    text = (panda._folder / panda.mjcf).read_text()
    assert part in text
    text = text.replace(part, instead)
    (tmp_path / "panda.xml").write_text(text)
    (tmp_path / "robot.yaml").write_text((panda._folder / "robot.yaml").read_text())
    with pytest.raises(PluginError, match=complaint):
        check_robot(Robot.from_dir(tmp_path))
