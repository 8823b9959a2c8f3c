"""Base of scripted demonstrators: a set point at human speed, and the arm that tracks it.

Shapes: B envs, n of them, J arm joints, M arm targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from robo_rl import quat_conj, quat_mul, quat_to_yaw, yaw_to_quat
from robo_rl_tasks.kinematics.differential_ik import DifferentialIk
from robo_rl_tasks.kinematics.expected_arm import ExpectedArm
from robo_rl_tasks.noisy_expert import ArmTargets, NoisyExpert, NoisyExpertConfig
from robo_rl_tasks.poses import wrap_angle

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask


class ArmExpertConfig(NoisyExpertConfig):
    """Settings of ``ArmExpert`` besides those of ``NoisyExpertConfig``.

    Args:
        speed_mps: Speed of the end effector.
        yaw_rate: Speed of its rotation about the vertical, rad/s.
        joint_speed: Fraction of each joint's maximum velocity that may be used.
        orientation_cost: Weight of a radian against a metre in inverse kinematics.
        feedback: Radians by which joint targets oppose each radian of displacement of the measured
            arm from where the commands lead; 0 leaves displacements to the arm's controller.
    """

    speed_mps: float = Field(default=0.25, gt=0)
    yaw_rate: float = Field(default=1.5, gt=0)
    joint_speed: float = Field(default=0.6, gt=0, le=1)
    orientation_cost: float = Field(default=0.3, ge=0)
    feedback: float = Field(default=0.5, ge=0, le=1)


class ArmExpert(NoisyExpert):
    """A demonstrator that tracks a set point; subclasses move the set point.

    Args:
        task: The demonstrated task.
        cfg: Settings.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level in [0, 1].
    """

    def __init__(
        self,
        task: ArmTask,
        cfg: ArmExpertConfig,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        import torch

        super().__init__(task, cfg, num_envs, generator, noise)
        self._arm_cfg = cfg
        self._tracker = None if task.hand else _tracker(task, cfg, num_envs)
        self._expected = None if task.hand else ExpectedArm(task.robot, num_envs, task.dt_s)
        self._pos, self._yaw = torch.zeros(num_envs, 3), torch.zeros(num_envs)

    def _targets(self, view: SimView) -> ArmTargets:
        grip = self._decide(view)
        quat = quat_mul(yaw_to_quat(self._yaw), self._hand_quat.expand(len(self._yaw), 4))
        arm = self._arm(view, self._pos, quat)
        return ArmTargets(arm, arm, grip)

    def _arm(self, view: SimView, pos: Tensor, quat: Tensor) -> Tensor:
        """Return the arm targets (B, M) for a set point at pos and quat.

        A pose needs no correction, because the Cartesian controller starts from the measured arm.
        """
        if self._tracker is None or self._expected is None:
            assert self._arm_task.hand is not None
            return self._arm_task.hand.pose(pos, quat)
        displaced = self._joint_pos(view).float() - self._expected.joint_pos
        command = self._tracker.step(pos, quat)
        self._expected.step(command)
        return command - self._arm_cfg.feedback * displaced

    def _joint_pos(self, view: SimView) -> Tensor:
        """Return the measured arm joints (B, J)."""
        return view.sensor(*(f"{joint.name}_pos" for joint in self._arm_task.arm))

    def _decide(self, view: SimView) -> Tensor:
        """Move the set point by one step; return the gripper's target (B,)."""
        raise NotImplementedError

    def _begin(self, view: SimView, ids: Tensor) -> None:
        """Put the set point of the envs ids (n,) at the end effector."""
        super()._begin(view, ids)
        quat = view.sensor("ee_quat")[ids].float()
        upright = quat_mul(quat, quat_conj(self._hand_quat).expand(len(ids), 4))
        self._pos[ids] = view.sensor("ee_pos")[ids].float()
        self._yaw[ids] = quat_to_yaw(upright)
        if self._tracker is not None and self._expected is not None:
            joint_pos = self._joint_pos(view)[ids]
            self._tracker.start(ids, joint_pos)
            self._expected.start(ids, joint_pos)

    def _move(self, waypoint: Tensor, speed_mps: float | Tensor | None = None) -> None:
        """Move the set point towards waypoint (B, 3) at its default speed or at speed_mps."""
        step = (self._arm_cfg.speed_mps if speed_mps is None else speed_mps) * self._arm_task.dt_s
        way = waypoint - self._pos
        length = way.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        self._pos = self._pos + way * (step / length).clamp(max=1)

    def _turn(self, yaw: Tensor, period: float | Tensor) -> None:
        """Rotate the set point towards yaw (B,) or the nearest equivalent, modulo period (B,)."""
        step = self._arm_cfg.yaw_rate * self._arm_task.dt_s
        self._yaw = self._yaw + wrap_angle(yaw - self._yaw, period).clamp(-step, step)


def _tracker(task: ArmTask, cfg: ArmExpertConfig, num_envs: int) -> DifferentialIk:
    return DifferentialIk(
        task.robot,
        num_envs,
        task.dt_s,
        speed=cfg.joint_speed,
        orientation_cost=cfg.orientation_cost,
    )
