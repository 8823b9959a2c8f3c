"""Conformance suite of a robot, for use by tasks, the simulator and the robot node.

    check_robot(Robot.from_dir("my_robot"))

A robot conforms if its YAML and MJCF agree, it holds its home and follows its targets, and its
shapes collide with the objects of a scene but never with each other.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.api.robot_mjcf import is_origin, pose_of_base
from robo_rl.core.errors import PluginError

# Any, because mujoco brings no types.
mujoco: Any = import_module("mujoco")

HOLD_S = 2.0
DRIFT = 1e-3
STEP_OF_RANGE = 0.05
HAND_HOME = 1e-3
_REST = 1e-6


def check_robot(robot: Robot) -> None:
    """Run every check on a robot.

    Raises:
        PluginError: The first check that fails, with expected and found values.
        ConfigError: The MJCF cannot be read.
        SpecError: A name of the YAML is not in the MJCF.
    """
    model = _compile(robot)
    for check in (
        _limits,
        _actuators,
        _sensors,
        _cameras,
        _masses,
        _contacts,
        _base,
        _gripper,
        _hand,
    ):
        check(robot, model)
    _holds_home(robot, model)
    _follows_targets(robot, model)


def _compile(robot: Robot) -> Any:
    first, second = robot.spec(), robot.spec()
    first.worldbody.add_body(name="only_in_the_first")
    names = [body.name for body in second.bodies]
    _expect(robot, "spec() must be fresh at each call", "only_in_the_first" not in names)
    return second.compile()


def _limits(robot: Robot, model: Any) -> None:
    """Check that ranges and number of the joints match the MJCF; ``spec`` checks their types."""
    _same(robot, "number of joints", len(robot.joints), model.nq)
    for index, joint in enumerate(robot.joints):
        _close(robot, f"range of {joint.name}", [joint.low, joint.high], model.jnt_range[index])
    _close(robot, "physics time step", 1.0 / robot.rates.physics_hz, model.opt.timestep)


def _actuators(robot: Robot, model: Any) -> None:
    """Check that control limits, forces and gains match the YAML, in its order."""
    names = tuple(model.actuator(index).name for index in range(model.nu))
    _same(robot, "order of the actuators", robot.actuator_names, names)
    torque = np.array([joint.max_torque for joint in robot.actuated_joints])
    limits = np.stack([robot.ctrl_low, robot.ctrl_high], 1)
    _close(robot, "control range", limits, model.actuator_ctrlrange)
    _close(robot, "force range", np.stack([-torque, torque], 1), model.actuator_forcerange)
    _close(robot, "kp", robot.control.kp, model.actuator_gainprm[:, 0])
    _close(robot, "kp", robot.control.kp, -model.actuator_biasprm[:, 1])
    _close(robot, "kd", robot.control.kd, -model.actuator_biasprm[:, 2])


def _sensors(robot: Robot, model: Any) -> None:
    """Check that joint positions, velocities and the end effector pose can be read by name."""
    data = _at_home(robot, model)
    data.qvel[:] = np.arange(1, model.nv + 1)
    mujoco.mj_forward(model, data)
    known = {model.sensor(index).name for index in range(model.nsensor)}
    wanted = {f"{name}_{kind}" for name in robot.joint_names for kind in ("pos", "vel")}
    missing = sorted((wanted | {"ee_pos", "ee_quat"}) - known)
    _expect(robot, f"sensors are missing: {missing}", not missing)
    for index, name in enumerate(robot.joint_names):
        _close(
            robot, f"sensor {name}_pos", robot.home_qpos[index], data.sensor(f"{name}_pos").data[0]
        )
        _close(robot, f"sensor {name}_vel", index + 1, data.sensor(f"{name}_vel").data[0])
    site = data.site(robot.frames.ee_site).xpos
    _close(robot, "sensor ee_pos", site, data.sensor("ee_pos").data)


def _cameras(robot: Robot, model: Any) -> None:
    for camera in robot.cameras:
        index = model.camera(camera.name).id
        size = (camera.width, camera.height)
        _same(robot, f"size of camera {camera.name}", size, tuple(model.cam_resolution[index]))
        _close(robot, f"fovy of camera {camera.name}", camera.fovy, model.cam_fovy[index])


def _masses(robot: Robot, model: Any) -> None:
    """Check that every moving body has a mass, and that the total is below half a tonne."""
    moved = model.body_mass[model.jnt_bodyid]
    _expect(robot, "every moved body must have a mass", bool((moved > 0).all()))
    total = float(model.body_mass.sum())
    _expect(robot, f"implausible total mass {total:.3f} kg", 0.05 < total < 500)


def _contacts(robot: Robot, model: Any) -> None:
    """Check that solid shapes collide with contact type 1 of a scene, and never with each other."""
    kind, affinity = model.geom_contype, model.geom_conaffinity
    solid = (kind | affinity) != 0
    meets = ((kind & 1) | (affinity & 1)) != 0
    _expect(robot, "a solid shape does not meet contact type 1", bool(meets[solid].all()))
    itself = np.any(kind[:, None] & affinity[None, :])
    _expect(robot, "shapes of the robot meet each other; give them contype 2", not itself)


def _base(robot: Robot, model: Any) -> None:
    """Check that the base is the origin, since poses of the hand are in its frame."""
    pose = pose_of_base(robot, model)
    there = pose is not None and is_origin(pose)
    _expect(robot, f"the base must be the origin of the world; its pose is {pose}", there)


def _gripper(robot: Robot, model: Any) -> None:
    del model
    if robot.gripper is None:
        return
    index = robot.actuator_names.index(robot.gripper.actuator)
    low, high = robot.ctrl_low[index], robot.ctrl_high[index]
    for name in ("open", "closed"):
        value = getattr(robot.gripper, name)
        _expect(robot, f"gripper.{name} lies outside [{low}, {high}]", low <= value <= high)


def _hand(robot: Robot, model: Any) -> None:
    """Check that the end effector's home matches the joints' home, to 1 mm and 1 mrad."""
    if robot.end_effector is None:
        return
    data, back, turn, vector = _at_home(robot, model), np.zeros(4), np.zeros(4), np.zeros(3)
    mujoco.mj_forward(model, data)
    mujoco.mju_negQuat(back, np.array(robot.end_effector.upright))
    mujoco.mju_mulQuat(turn, data.sensor("ee_quat").data, back)
    mujoco.mju_quat2Vel(vector, turn, 1.0)
    found = np.concatenate([data.sensor("ee_pos").data, vector])
    home = np.array([axis.home for axis in robot.end_effector.axes])
    near = bool((np.abs(found - home) <= HAND_HOME).all())
    _expect(
        robot,
        f"end_effector: home is {home.tolist()}, of the joints {found.round(4).tolist()}",
        near,
    )


def _holds_home(robot: Robot, model: Any) -> None:
    """Check that home drifts by less than 1e-3 (rad or m) in 2 s."""
    data = _at_home(robot, model)
    worst = 0.0
    for _ in range(round(HOLD_S * robot.rates.physics_hz)):
        mujoco.mj_step(model, data)
        worst = max(worst, float(np.abs(data.qpos - robot.home_qpos).max()))
    _expect(robot, f"home drifts by {worst:.2g} in {HOLD_S} s, allowed {DRIFT}", worst < DRIFT)


def _follows_targets(robot: Robot, model: Any) -> None:
    """Check that a 5 % step of each target is followed within 1 s, to 10 % of the step."""
    for index, joint in enumerate(robot.actuated_joints):
        step = STEP_OF_RANGE * (joint.high - joint.low)
        step = step if joint.home + step <= joint.high else -step
        data = _at_home(robot, model)
        data.ctrl[index] += step
        mujoco.mj_step(model, data, round(robot.rates.physics_hz))
        moved = float(data.joint(joint.name).qpos[0]) - joint.home
        near = abs(moved - step) < 0.1 * abs(step)
        _expect(robot, f"{joint.name} moved by {moved:.4g}, its target by {step:.4g}", near)


def _at_home(robot: Robot, model: Any) -> Any:
    data = mujoco.MjData(model)
    data.qpos[:] = robot.home_qpos
    data.ctrl[:] = robot.home_ctrl
    return data


def _close(robot: Robot, what: str, expected: Any, found: Any) -> None:
    if not np.allclose(expected, found, rtol=0, atol=_REST):
        raise PluginError(what, where=f"robot '{robot.name}'", expected=expected, found=found)


def _same(robot: Robot, what: str, expected: Any, found: Any) -> None:
    if expected != found:
        raise PluginError(what, where=f"robot '{robot.name}'", expected=expected, found=found)


def _expect(robot: Robot, otherwise: str, holds: bool) -> None:
    if not holds:
        raise PluginError(otherwise, where=f"robot '{robot.name}'")
