"""A folder with a robot.yaml is a robot; a mistake in it is one typed error that names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from robo_rl.api.robot import Robot
from robo_rl.core.errors import ConfigError, SpecError

YAML = """\
name: stick
mjcf: stick.xml
source: none
joints:
  - {name: hinge, low: -1, high: 1, max_velocity: 1, max_torque: 1, home: 0.5}
control: {kp: [10], kd: [1]}
frames: {base: stick, ee_site: ee_site}
rates: {control_hz: 20, physics_hz: 200}
topics: {command: /command, trajectory: /trajectory}
"""
MJCF = """\
<mujoco><compiler angle="radian"/><worldbody><body name="stick">
  <joint name="hinge" range="-1 1" limited="true"/><geom size="0.1"/><site name="ee_site"/>
</body></worldbody></mujoco>
"""


def folder(path: Path, *, old: str = "", new: str = "", mjcf: str = MJCF) -> Path:
    assert old in YAML
    (path / "robot.yaml").write_text(YAML.replace(old, new, 1) if old else YAML)
    (path / "stick.xml").write_text(mjcf)
    return path


def test_folder_without_python_is_a_robot(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    robot = Robot.from_dir(folder(tmp_path))
    assert robot.joint_names == robot.actuator_names == ("hinge",)
    assert robot.home_qpos.tolist() == robot.home_ctrl.tolist() == [0.5]
    assert (robot.ctrl_low.tolist(), robot.ctrl_high.tolist()) == ([-1.0], [1.0])
    assert robot.spec().compile().nu == 1


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("max_torque", "max_torqe", "max_torqe"),
        ("high: 1", "high: one", r"joints\.0\.high"),
        ("home: 0.5", "home: 2", "low <= home <= high"),
        ("kp: [10]", "kp: [10, 10]", "control.kp"),
        ("physics_hz: 200", "physics_hz: 210", "multiple of control_hz"),
        ("physics_hz: 200", "physics_hz: .nan", "physics_hz"),
        ("/trajectory}", "/trajectory, images: {frnt: /image}}", "no camera 'frnt'; known: none"),
        ("home: 0.5}", "home: 0.5, mimic: other}", "names must be unique and at least one"),
        ("name: stick", "name: [stick", "robot.yaml"),
        ("mjcf: stick.xml", "mjcf: !!python/object:os.system {}", "robot.yaml"),
    ],
)
def test_wrong_field_is_a_config_error_that_names_it(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        Robot.from_dir(folder(tmp_path, old=old, new=new))
    assert "robot.yaml" in str(caught.value)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Robot.from_dir(folder(tmp_path, old="source: none\njoints", new="sauce: none\njoint"))
    assert all(field in str(caught.value) for field in ("sauce", "source", "joints"))


@pytest.mark.parametrize("missing", ["robot.yaml", "stick.xml"])
def test_missing_file_is_a_config_error(tmp_path: Path, missing: str) -> None:
    (folder(tmp_path) / missing).unlink()
    with pytest.raises(ConfigError, match=missing):
        Robot.from_dir(tmp_path).spec()


def test_damaged_mjcf_is_a_config_error(tmp_path: Path) -> None:
    robot = Robot.from_dir(folder(tmp_path, mjcf=MJCF[:-20]))
    with pytest.raises(ConfigError, match=r"stick\.xml"):
        robot.spec()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{name: hinge", "{name: hing"),
        ("base: stick", "base: stik"),
        ("ee_site: ee_site", "ee_site: ee"),
    ],
)
def test_name_that_the_mjcf_lacks_is_a_spec_error(tmp_path: Path, old: str, new: str) -> None:
    robot = Robot.from_dir(folder(tmp_path, old=old, new=new))
    with pytest.raises(SpecError, match=r"stick\.xml.*expected|stick\.xml.*found"):
        robot.spec()


def test_joints_in_another_order_are_a_spec_error(tmp_path: Path) -> None:
    second = "  - {name: b, low: -1, high: 1, max_velocity: 1, max_torque: 1, home: 0}\n"
    both = MJCF.replace("<geom", '<joint name="b" axis="1 0 0"/><geom').replace("hinge", "c")
    folder(tmp_path, mjcf=both.replace('"b"', '"hinge"').replace('"c"', '"b"'))
    text = YAML.replace("control:", second + "control:").replace("[10]", "[10, 10]")
    (tmp_path / "robot.yaml").write_text(text.replace("kd: [1]", "kd: [1, 1]"))
    with pytest.raises(SpecError, match="joints differ"):
        Robot.from_dir(tmp_path).spec()


LEAKY = """\
<mujoco><compiler angle="degree"/>
<default><geom contype="0" conaffinity="0" rgba="1 0 0 1"/><joint damping="3"/></default>
<worldbody><body name="stick">
  <joint name="hinge" range="-57.29577951308232 57.29577951308232"/>
  <geom name="rod" size="0.1"/><site name="ee_site"/>
</body></worldbody><keyframe><key name="up" qpos="0.1"/></keyframe></mujoco>
"""


def test_defaults_and_units_of_a_robot_stay_with_it(tmp_path: Path) -> None:
    """What its scene adds has MuJoCo's own defaults; the robot keeps its own."""
    mujoco = pytest.importorskip("mujoco")
    robot = Robot.from_dir(folder(tmp_path, mjcf=LEAKY))
    spec = robot.spec()
    spec.worldbody.add_geom(name="table", type=mujoco.mjtGeom.mjGEOM_BOX, size=[1, 1, 0.1])
    door = spec.worldbody.add_body(name="door")
    door.add_joint(name="door", range=[-0.5, 0.5])
    door.add_geom(name="leaf", size=[0.1, 0, 0])
    model = spec.compile()
    for name in ("table", "leaf"):
        assert (int(model.geom(name).contype[0]), int(model.geom(name).conaffinity[0])) == (1, 1)
    assert int(model.geom("rod").contype[0]) == int(model.geom("rod").conaffinity[0]) == 0
    assert model.geom("rod").rgba.tolist() == [1, 0, 0, 1]
    assert model.joint("hinge").range.tolist() == pytest.approx([-1, 1])
    assert model.joint("door").range.tolist() == [-0.5, 0.5]
    assert [float(model.joint(name).damping[0]) for name in ("hinge", "door")] == [3, 0]
    assert model.opt.timestep == 1 / 200


@pytest.mark.parametrize(
    ("joint", "complaint"),
    [
        ('name="hinge"', r"joint 'hinge' has no limits, expected range='-1 1'"),
        ('name="hinge" range="-1 1" limited="false"', "joint 'hinge' has no limits"),
        ('name="hinge" type="ball"', "joint 'hinge' is a ball"),
        ('name="hinge" type="slide" range="-1 1"', "joint 'hinge' is a slide"),
    ],
)
def test_a_joint_without_limits_or_of_another_kind_is_refused_by_name(
    tmp_path: Path, joint: str, complaint: str
) -> None:
    pytest.importorskip("mujoco")
    mjcf = MJCF.replace('name="hinge" range="-1 1" limited="true"', joint)
    with pytest.raises(SpecError, match=complaint) as caught:
        Robot.from_dir(folder(tmp_path, mjcf=mjcf)).spec()
    assert "stick.xml" in str(caught.value)
