"""A Cartesian controller: joint targets that move the end effector to a commanded pose.

Shapes: B envs, J joints between base and end effector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl import (
    ConfigError,
    matrix_to_rotvec,
    quat_conj,
    quat_mul,
    quat_to_matrix,
    quat_to_rotvec,
    rotvec_to_quat,
)
from robo_rl_tasks.kinematics.chain import KinematicChain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robo_rl import CommandAxis, Joint, Robot

_ROUNDS = 2
_DAMPING = 0.01
_TO_HOME = 0.05


class CartesianController:
    """A Cartesian controller like a robot's own: damped least squares from the measured joints.

    The null space is used to move towards home. A joint's target differs from its position by at
    most one period at the joint's largest velocity, plus the lag of the joint's controller.

    Source: Buss, "Introduction to Inverse Kinematics with Jacobian Transpose, Pseudoinverse and
    Damped Least Squares methods", 2004, eq. 11, and sec. 7 for the null space.

    Args:
        robot: A robot with ``end_effector``.
        joints: (J,) the joints that carry the end effector, in the order of qpos.
        dt_s: Period.

    Raises:
        ConfigError: The robot has no ``end_effector``.
    """

    def __init__(self, robot: Robot, joints: Sequence[Joint], dt_s: float) -> None:
        import torch

        if robot.end_effector is None:
            hint = "actions: joints, or say end_effector in its robot.yaml"
            raise ConfigError(f"robot '{robot.name}' has no hand to command", hint=hint)
        names = tuple(joint.name for joint in joints)
        gains = [robot.actuated_joints.index(joint) for joint in joints]
        lag = [robot.control.kd[i] / robot.control.kp[i] for i in gains]
        self.axes: tuple[CommandAxis, ...] = robot.end_effector.axes
        self._columns = torch.tensor([robot.joint_names.index(name) for name in names])
        self._chain = KinematicChain(robot, names)
        self._upright = torch.tensor(robot.end_effector.upright)
        self._home = torch.tensor([joint.home for joint in joints])
        self._low = torch.tensor([joint.low for joint in joints])
        self._high = torch.tensor([joint.high for joint in joints])
        self._reach = torch.tensor(
            [joint.max_velocity * (dt_s + late) for joint, late in zip(joints, lag, strict=True)]
        )

    def targets(self, qpos: Tensor, act: Tensor) -> Tensor:
        """Return joint targets (B, J) that move the end effector towards a pose.

        Args:
            qpos: (B, nq) measured positions of all joints.
            act: (B, 6) position and rotation vector, see
                ``robo_rl.api.control_axes.EndEffectorAxes``.
        """
        import torch

        self._follow(act)
        began = qpos[:, self._columns].to(act.dtype)
        upright = self._upright.expand(len(act), 4)
        wanted = quat_to_matrix(quat_mul(rotvec_to_quat(act[:, 3:]), upright))
        joints = began
        for _ in range(_ROUNDS):
            joints = (joints + self._step(joints, act[:, :3], wanted)).clamp(self._low, self._high)
        return began + torch.clamp(joints - began, -self._reach, self._reach)

    def forward(self, joints: Tensor) -> Tensor:
        """Return the pose (B, 6), in the axes of an action, of joint positions (B, J)."""
        import torch

        self._follow(joints)
        placed = self._chain.forward(joints)
        return torch.cat(
            [placed.pos, matrix_to_rotvec(placed.rot @ quat_to_matrix(self._upright).mT)], dim=-1
        )

    def pose(self, pos: Tensor, quat: Tensor) -> Tensor:
        """Return the action (B, 6) for an end effector at pos (B, 3), quat (B, 4) wxyz."""
        import torch

        self._follow(quat)
        turn = quat_mul(quat, quat_conj(self._upright).expand(len(quat), 4))
        return torch.cat([pos, quat_to_rotvec(turn)], dim=-1)

    def _step(self, joints: Tensor, pos: Tensor, rot: Tensor) -> Tensor:
        import torch

        now = self._chain.forward(joints)
        gap = torch.cat([pos - now.pos, matrix_to_rotvec(rot @ now.rot.mT)], dim=-1)[..., None]
        jac, home = now.jacobian, _TO_HOME * (self._home - joints)
        square = jac @ jac.mT + _DAMPING**2 * torch.eye(6, device=pos.device)
        back = torch.linalg.solve(square, torch.cat([gap, jac @ home[..., None]], -1))
        taken, undone = (jac.mT @ back).unbind(-1)
        return taken + home - undone

    def _follow(self, like: Tensor) -> None:
        if self._home.device != like.device:
            for name in ("_columns", "_upright", "_home", "_low", "_high", "_reach"):
                setattr(self, name, getattr(self, name).to(like.device))
