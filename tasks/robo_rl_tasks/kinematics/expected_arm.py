"""The arm as its commands lead to be expected, to tell a displacement from a controller's lag.

Shapes: B envs, n of them, J arm joints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl_tasks.kinematics.joints import arm_joints

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl import Robot


class ExpectedArm:
    """The joints of B arms that track joint targets without disturbance.

    A position controller of gains kp and kd without much inertia is a first-order lag of time
    constant kd / kp: q' = (target − q) · kp / kd.

    Args:
        robot: The robot, with the gains.
        num_envs: B.
        dt_s: Time between targets.
    """

    def __init__(self, robot: Robot, num_envs: int, dt_s: float) -> None:
        import torch

        joints = [robot.actuated_joints.index(joint) for joint in arm_joints(robot)]
        rate = torch.tensor([robot.control.kp[i] / robot.control.kd[i] for i in joints])
        self._share = -torch.expm1(-dt_s * rate)
        self.joint_pos = torch.zeros(num_envs, len(joints))

    def start(self, ids: Tensor, joint_pos: Tensor) -> None:
        """Put the arms of envs ids (n,) at joint_pos (n, J), at rest."""
        self.joint_pos[ids] = joint_pos.to(self.joint_pos)

    def step(self, target: Tensor) -> None:
        """Move each arm towards its targets (B, J) for one step."""
        self.joint_pos = self.joint_pos + self._share * (target - self.joint_pos)
