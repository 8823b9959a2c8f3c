"""Forward kinematics of the end effector, batched and on any device.

Shapes: B envs, J joints between base and end effector.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl import Robot


_CONSTANTS = ("_anchors", "_axes", "_pos", "_rot", "_once", "_twice", "_slide")


class EndEffectorKinematics(NamedTuple):
    """Pose and Jacobian of an end effector.

    Args:
        pos: (B, 3) in the world, m.
        rot: (B, 3, 3) its axes in the world, as columns.
        jacobian: (B, 6, J) maps joint velocities to velocity and angular velocity in the world.
    """

    pos: Tensor
    rot: Tensor
    jacobian: Tensor


class KinematicChain:
    """The joints of a robot that carry the end effector, with the base as in the robot's model.

    Source: product of exponentials in the space frame, Lynch and Park, "Modern Robotics", eq. 4.14,
    with Rodrigues' formula, eq. 3.51, and the Jacobian of eq. 5.11 taken at the end effector.

    Args:
        robot: The robot.
        joints: (J,) their names, from the base on.
    """

    def __init__(self, robot: Robot, joints: tuple[str, ...]) -> None:
        import mujoco
        import torch

        model = robot.spec().compile()
        data = mujoco.MjData(model)
        data.qpos[:] = 0.0
        mujoco.mj_kinematics(model, data)
        ids = [model.joint(name).id for name in joints]
        site = data.site(robot.frames.ee_site)
        self._slides = [model.jnt_type[i] == mujoco.mjtJoint.mjJNT_SLIDE for i in ids]
        self._anchors = torch.from_numpy(data.xanchor[ids]).float()
        self._axes = torch.from_numpy(data.xaxis[ids]).float()
        self._pos = torch.from_numpy(site.xpos.copy()).float()
        self._rot = torch.from_numpy(site.xmat.reshape(3, 3).copy()).float()
        turning = self._axes * torch.tensor(self._slides).logical_not()[:, None]
        self._once = torch.linalg.cross(turning[:, None], torch.eye(3)[None]).mT
        self._twice, self._slide = self._once @ self._once, torch.tensor(self._slides)[:, None]

    def forward(self, qpos: Tensor) -> EndEffectorKinematics:
        """Return the end effector at joint positions qpos (B, J)."""
        import torch

        self._follow(qpos)
        pos, rot = qpos.new_zeros(len(qpos), 3), torch.eye(3, device=qpos.device)
        anchors: list[Tensor] = []
        axes: list[Tensor] = []
        turns = self._turns(qpos)
        for index, slides in enumerate(self._slides):
            anchor, axis = self._anchors[index], self._axes[index]
            anchors.append(pos + rot @ anchor)
            axes.append((rot @ axis).expand(len(qpos), 3))
            if slides:
                pos = pos + qpos[:, index, None] * axes[-1]
            else:
                rot = rot @ turns[:, index]
                pos = anchors[-1] - rot @ anchor
        pos, rot = pos + rot @ self._pos, rot @ self._rot
        return EndEffectorKinematics(
            pos, rot, self._jacobian(pos, torch.stack(anchors, 1), torch.stack(axes, 1))
        )

    def _turns(self, qpos: Tensor) -> Tensor:
        """Return each joint's rotation, (B, J, 3, 3); the identity for a slide."""
        import torch

        angle, eye = qpos[..., None, None], torch.eye(3, device=qpos.device)
        return eye + torch.sin(angle) * self._once + (1 - torch.cos(angle)) * self._twice

    def _jacobian(self, pos: Tensor, anchors: Tensor, axes: Tensor) -> Tensor:
        """Return the Jacobian; hinges rotate about an anchor, slides translate along an axis."""
        import torch

        linear = torch.where(self._slide, axes, torch.linalg.cross(axes, pos[:, None] - anchors))
        angular = torch.where(self._slide, 0.0, axes)
        return torch.cat([linear, angular], dim=-1).transpose(1, 2)

    def _follow(self, like: Tensor) -> None:
        if self._axes.device != like.device:
            for name in _CONSTANTS:
                setattr(self, name, getattr(self, name).to(like.device))
