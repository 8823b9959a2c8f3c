"""The models behind ``robot.yaml``: joints, limits, gains, frames, cameras, rates and topics.

Sizes: nq joints of one coordinate, nu actuators, one per joint that mimics no other.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from robo_rl.api.cameras import Side
from robo_rl.api.control_axes import CommandAxis, EndEffectorAxes, Joint
from robo_rl.config.models import ConfigModel
from robo_rl.core.suggestions import did_you_mean


class Control(ConfigModel):
    """Joint position control: torque = kp (target − q) − kd q̇, clipped to ``max_torque``.

    Args:
        mode: Meaning of a control value.
        kp: (nu,) stiffness, N m/rad or N/m.
        kd: (nu,) damping, N m s/rad or N s/m.
        gravity_compensation: Whether the robot carries its own weight without a position error.
    """

    mode: Literal["joint_position"] = "joint_position"
    kp: tuple[float, ...]
    kd: tuple[float, ...]
    gravity_compensation: bool = True


class Frames(ConfigModel):
    """Names in the MJCF: body of the base, site of the end effector, bodies of the fingers."""

    base: str
    """Body of the base."""
    ee_site: str
    """Site of the end effector."""
    fingers: tuple[str, ...] = ()
    """Bodies of the fingers."""


class Gripper(ConfigModel):
    """The grasping actuator, its open and closed targets, and the widest object in m."""

    actuator: str
    """Name of the grasping actuator."""
    open: float
    """Target when open."""
    closed: float
    """Target when closed."""
    max_width: float
    """Widest object that fits, in m."""


class Camera(ConfigModel):
    """A camera on a body of the robot.

    Args:
        name: Its name in observations and in the MJCF.
        body: Body that carries it.
        pos: Position in the body's frame, m.
        xyaxes: Right and up axes of the image in the body's frame.
        fovy: Vertical field of view in degrees.
        width: Image width in pixels.
        height: Image height in pixels.
    """

    name: str
    body: str
    pos: tuple[float, float, float]
    xyaxes: tuple[float, float, float, float, float, float]
    fovy: float
    width: Side = 128
    height: Side = 128


class Rates(ConfigModel):
    """Rates of the policy and of the physics, in Hz; the physics rate is a multiple."""

    control_hz: float = Field(gt=0)
    """Rate of the policy, in Hz."""
    physics_hz: float = Field(gt=0)
    """Rate of the physics, in Hz, a multiple of ``control_hz``."""

    @model_validator(mode="after")
    def _whole_substeps(self) -> Rates:
        if self.physics_hz % self.control_hz:
            raise ValueError("physics_hz must be a multiple of control_hz")
        return self


class Topics(ConfigModel):
    """ROS 2 topics.

    Args:
        joint_states: Measured joints.
        command: Joint commands, as arrays.
        trajectory: Joint commands, as trajectories.
        images: Name of a camera of the robot → its image topic.
        ee_pose: Measured pose of the end effector, ``frames.ee_site``, in the base's frame.
        ee_pose_command: Commands of the end effector, as poses.
        ee_twist_command: Commands of the end effector, as velocities.
        gripper_command: Gripper command as an array, used where the end effector is commanded.
    """

    joint_states: str = "/joint_states"
    command: str
    trajectory: str
    images: dict[str, str] = Field(default_factory=dict)
    ee_pose: str = "/ee_pose"
    ee_pose_command: str = "/cartesian_pose_controller/pose"
    ee_twist_command: str = "/servo_node/delta_twist_cmds"
    gripper_command: str = "/gripper_controller/commands"

    @property
    def follow_joint_trajectory(self) -> str:
        """Return the name of the trajectory action of the controller on ``trajectory``."""
        return f"{self.trajectory.rpartition('/')[0]}/follow_joint_trajectory"


class RobotDescription(ConfigModel):
    """The content of ``robot.yaml`` for one machine.

    Args:
        name: Its name.
        mjcf: File of bodies and shapes, relative to the folder of ``robot.yaml``.
        source: Where the numbers were published.
        joints: All joints in the order of the MJCF (qpos).
        control: Control mode and gains, in the order of ``actuator_names``.
        frames: Named frames.
        gripper: The grasping actuator, None for a robot without.
        end_effector: Axes of the Cartesian controller, None for a robot without one.
        cameras: Cameras.
        rates: Control and physics rates.
        topics: ROS 2 topic names.
    """

    name: str
    mjcf: str
    source: str
    joints: tuple[Joint, ...]
    control: Control
    frames: Frames
    gripper: Gripper | None = None
    end_effector: EndEffectorAxes | None = None
    cameras: tuple[Camera, ...] = ()
    rates: Rates
    topics: Topics

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Return the names of the nq joints in qpos order."""
        return tuple(joint.name for joint in self.joints)

    @property
    def actuated_joints(self) -> tuple[Joint, ...]:
        """Return the nu joints that have an actuator, in control order."""
        return tuple(joint for joint in self.joints if not joint.mimic)

    @property
    def actuator_names(self) -> tuple[str, ...]:
        """Return the names of the nu actuators in control order."""
        return tuple(joint.actuator or joint.name for joint in self.actuated_joints)

    @property
    def command_axes(self) -> dict[str, CommandAxis]:
        """Return every commandable axis by its name in actions: actuators and end-effector axes."""
        joints = zip(self.actuator_names, self.actuated_joints, strict=True)
        return {
            **dict(joints),
            **{axis.name: axis for axis in (self.end_effector.axes if self.end_effector else ())},
        }

    @property
    def home_qpos(self) -> NDArray[np.float64]:
        """Return the (nq,) joint positions at home."""
        return np.array([joint.home for joint in self.joints])

    @property
    def home_ctrl(self) -> NDArray[np.float64]:
        """Return the (nu,) targets that hold home."""
        return np.array([joint.home for joint in self.actuated_joints])

    @property
    def ctrl_low(self) -> NDArray[np.float64]:
        """Return the (nu,) lower limits of the targets."""
        return np.array([joint.low for joint in self.actuated_joints])

    @property
    def ctrl_high(self) -> NDArray[np.float64]:
        """Return the (nu,) upper limits of the targets."""
        return np.array([joint.high for joint in self.actuated_joints])

    @model_validator(mode="after")
    def _images_are_of_cameras(self) -> RobotDescription:
        names = tuple(camera.name for camera in self.cameras)
        if names:
            _unique("camera", names)
        for name in self.topics.images:
            if name not in names:
                raise ValueError(f"topics.images: no camera '{name}'; {did_you_mean(name, names)}")
        return self

    @model_validator(mode="after")
    def _names_and_sizes_agree(self) -> RobotDescription:
        actuators = self.actuator_names
        _unique("joint", self.joint_names)
        _unique("actuator", actuators)
        if self.end_effector:
            _unique("axis", (*{*self.joint_names, *actuators}, *self.end_effector.names))
        for field in ("kp", "kd"):
            if len(getattr(self.control, field)) != len(actuators):
                raise ValueError(f"control.{field}: expected one number for each of {actuators}")
        leaders = {joint.name for joint in self.actuated_joints}
        for joint in self.joints:
            if joint.mimic and joint.mimic not in leaders:
                raise ValueError(f"joint {joint.name}: mimic '{joint.mimic}' is no actuated joint")
        if self.gripper and self.gripper.actuator not in actuators:
            raise ValueError(f"gripper.actuator: expected one of {actuators}")
        return self


def _unique(what: str, names: tuple[str, ...]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ValueError(f"{what} names must be unique and at least one; twice: {twice}")
