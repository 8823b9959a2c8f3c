"""Builds one ``mujoco.MjSpec`` from a robot's YAML and MJCF, with couplings and sensors.

Imported only where a simulator is needed (``Robot.spec``). The MJCF is attached to a new scene, so
that its ``<default>`` and its ``<compiler>`` apply to the robot alone. Elements that a task or this
module adds to the scene have MuJoCo's own defaults, and angles in rad.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import ConfigError, SpecError

if TYPE_CHECKING:
    from robo_rl.api.control_axes import Joint
    from robo_rl.api.robot_description import Camera, RobotDescription

# Any, because mujoco brings no types.
mujoco: Any = import_module("mujoco")

HAND_SENSORS = ("ee_pos", "ee_quat")
"""Sensors of the pose of the end effector, in the world's frame."""
# A coupling as stiff as the solver allows at 200 Hz: its time constant is two physics steps.
_COUPLING_SOLREF = (0.01, 1.0)


def build(robot: RobotDescription, file: Path) -> Any:
    """Read the MJCF and add the actuators, sensors and cameras of the YAML.

    Raises:
        ConfigError: The file is missing or is no MJCF.
        SpecError: A name of the YAML is not in the MJCF, the order of the joints differs, or a
            joint is of another kind or has no limits.
    """
    mjcf = _read(file)
    _check_names(robot, mjcf, file)
    _check_joints(robot, mjcf, file)
    spec = _scene_with(mjcf)
    spec.option.timestep = 1.0 / robot.rates.physics_hz
    if robot.control.gravity_compensation:
        for body in spec.bodies[1:]:
            body.gravcomp = 1.0
    for joint in robot.joints:
        _couple(spec, joint)
    for joint, name, kp, kd in zip(
        robot.actuated_joints, robot.actuator_names, robot.control.kp, robot.control.kd, strict=True
    ):
        _actuate(spec, joint, name, kp, kd)
    _sense(spec, robot)
    for camera in robot.cameras:
        _film(spec, camera)
    return spec


def pose_of_base(robot: RobotDescription, model: Any) -> NDArray[np.float64] | None:
    """Return the pose (7,) of the base in a model's world: position in m, quaternion wxyz.

    None if the model has no such body. Poses of the hand are in the frame of the base, and physics
    has them in the world's frame, so that the two must be one (``is_origin``).
    """
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, robot.frames.base)
    if index < 0:
        return None
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return np.concatenate([data.xpos[index], data.xquat[index]])


def is_origin(pose: NDArray[np.float64]) -> bool:
    """Return whether a pose (7,) is that of the world, up to 1e-6."""
    turned = np.abs(pose[3:]) - (1.0, 0.0, 0.0, 0.0)  # q and −q are one rotation
    return bool((np.abs(pose[:3]) < 1e-6).all() and (np.abs(turned) < 1e-6).all())


def _read(file: Path) -> Any:
    if not file.is_file():
        raise ConfigError("no such file", where=file, hint="robot.yaml names it in 'mjcf'")
    try:
        return mujoco.MjSpec.from_file(str(file))
    except ValueError as error:
        raise ConfigError(f"is no MJCF: {error}", where=file) from error


def _check_names(robot: RobotDescription, spec: Any, file: Path) -> None:
    found = tuple(joint.name for joint in spec.joints)
    if found != robot.joint_names:
        raise SpecError("joints differ", where=file, expected=robot.joint_names, found=found)
    bodies = {body.name for body in spec.bodies}
    named = {robot.frames.base, *robot.frames.fingers, *(camera.body for camera in robot.cameras)}
    if missing := named - bodies:
        raise SpecError(f"no body named {sorted(missing)}", where=file, found=sorted(bodies))
    sites = {site.name for site in spec.sites}
    if robot.frames.ee_site not in sites:
        raise SpecError(
            "no such site", where=file, expected=robot.frames.ee_site, found=sorted(sites)
        )


def _check_joints(robot: RobotDescription, spec: Any, file: Path) -> None:
    """Check that the kind of each joint fits its unit, and that it has a limited range."""
    problems = [
        problem
        for joint, found in zip(robot.joints, spec.joints, strict=True)
        if (problem := _joint_problem(joint, found, auto=bool(spec.compiler.autolimits)))
    ]
    if problems:
        hint = "controls and starts of a robot need limits, in the MJCF as in robot.yaml"
        raise SpecError("; ".join(problems), where=file, hint=hint)


def _joint_problem(joint: Joint, found: Any, *, auto: bool) -> str:
    kinds = {"rad": mujoco.mjtJoint.mjJNT_HINGE, "m": mujoco.mjtJoint.mjJNT_SLIDE}
    if found.type != kinds[joint.unit]:
        name = found.type.name.removeprefix("mjJNT_").lower()
        return f"joint '{joint.name}' is a {name}, which is not what its unit {joint.unit} says"
    given = found.limited == mujoco.mjtLimited.mjLIMITED_AUTO and auto
    limited = found.range[0] < found.range[1] if given else found.limited
    expected = f"range='{joint.low:g} {joint.high:g}'"
    return "" if limited == 1 else f"joint '{joint.name}' has no limits, expected {expected}"


def _scene_with(mjcf: Any) -> Any:
    """Return a new scene with the robot and the robot's physics and visual options."""
    spec = mujoco.MjSpec()
    spec.modelname, spec.compiler.degree = mjcf.modelname, False
    spec.option, spec.visual, spec.stat = mjcf.option, mjcf.visual, mjcf.stat
    # No prefix, so that names stay unchanged; two defaults called main would become one.
    mjcf.default.name = f"{mjcf.modelname}/main"
    spec.attach(mjcf, prefix="", suffix="", frame=spec.worldbody.add_frame())
    return spec


def _couple(spec: Any, joint: Joint) -> None:
    """Couple a joint to the joint that it mimics: q = q_leader."""
    if not joint.mimic:
        return
    data = [0.0] * 11
    data[1] = 1.0
    spec.add_equality(
        name=f"{joint.name}_mimic",
        type=mujoco.mjtEq.mjEQ_JOINT,
        objtype=mujoco.mjtObj.mjOBJ_JOINT,
        name1=joint.name,
        name2=joint.mimic,
        data=data,
        solref=_COUPLING_SOLREF,
    )


def _actuate(spec: Any, joint: Joint, name: str, kp: float, kd: float) -> None:
    """Add a position actuator; with followers, a tendon drives the mean of their joints."""
    followers = [eq.name1 for eq in spec.equalities if eq.name2 == joint.name]
    target, transmission = joint.name, mujoco.mjtTrn.mjTRN_JOINT
    if followers:
        target, transmission = f"{name}_tendon", mujoco.mjtTrn.mjTRN_TENDON
        tendon = spec.add_tendon(name=target)
        for member in [joint.name, *followers]:
            tendon.wrap_joint(member, 1.0 / (1 + len(followers)))
    actuator = spec.add_actuator(name=name, target=target, trntype=transmission)
    actuator.set_to_position(kp=kp, kv=kd)
    actuator.ctrllimited = actuator.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE
    actuator.ctrlrange = (joint.low, joint.high)
    actuator.forcerange = (-joint.max_torque, joint.max_torque)


def _sense(spec: Any, robot: RobotDescription) -> None:
    kind, obj = mujoco.mjtSensor, mujoco.mjtObj
    sensors: list[tuple[str, Any, Any, str]] = []
    for joint in robot.joint_names:
        sensors.append((f"{joint}_pos", kind.mjSENS_JOINTPOS, obj.mjOBJ_JOINT, joint))
        sensors.append((f"{joint}_vel", kind.mjSENS_JOINTVEL, obj.mjOBJ_JOINT, joint))
    site = robot.frames.ee_site
    for name, sensor in zip(
        HAND_SENSORS, (kind.mjSENS_FRAMEPOS, kind.mjSENS_FRAMEQUAT), strict=True
    ):
        sensors.append((name, sensor, obj.mjOBJ_SITE, site))
    for name, sensor, objtype, objname in sensors:
        spec.add_sensor(name=name, type=sensor, objtype=objtype, objname=objname)


def _film(spec: Any, camera: Camera) -> None:
    frame: Any = spec.body(camera.body).add_camera(
        name=camera.name, pos=camera.pos, fovy=camera.fovy, resolution=(camera.width, camera.height)
    )
    frame.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    frame.alt.xyaxes = camera.xyaxes
