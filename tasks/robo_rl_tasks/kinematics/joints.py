"""Selects the arm joints of a robot."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robo_rl import Joint, Robot


def arm_indices(robot: Robot) -> list[int]:
    """Return the indices in qpos of the actuated joints except the gripper, in control order."""
    return [robot.joint_names.index(joint.name) for joint in arm_joints(robot)]


def arm_joints(robot: Robot) -> list[Joint]:
    """Return the actuated joints except the gripper, in control order."""
    gripper = robot.gripper.actuator if robot.gripper else None
    pairs = zip(robot.actuated_joints, robot.actuator_names, strict=True)
    return [joint for joint, actuator in pairs if actuator != gripper]
