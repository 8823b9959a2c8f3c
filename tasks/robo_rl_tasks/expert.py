"""Base of scripted demonstrators: a set point at human speed, and the arm that tracks it.

Shapes: B envs, n of them, A act_dim. Noise makes demonstrations imperfect, like a trembling hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from robo_rl import ConfigModel, quat_conj, quat_mul, quat_to_yaw, yaw_to_quat
from robo_rl_tasks.kinematics.differential_ik import DifferentialIk
from robo_rl_tasks.noise import OrnsteinUhlenbeckNoise
from robo_rl_tasks.poses import wrap_angle

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask


class ArmExpertConfig(ConfigModel):
    """Settings of ``ArmExpert``.

    Args:
        ee_quat: Orientation of the end effector at yaw 0, wxyz; by default it looks down.
        speed_mps: Speed of the end effector.
        yaw_rate: Speed of its rotation about the vertical, rad/s.
        joint_speed: Fraction of each joint's maximum velocity that may be used.
        orientation_cost: Weight of a radian against a metre in inverse kinematics.
        joint_noise_rad: Standard deviation of the noise of joints and rotations at noise level 1.
        position_noise_m: Standard deviation of the noise of positions at noise level 1, where
            actions are poses.
        noise_correlation_s: Correlation time of the noise.
    """

    ee_quat: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 0.0)
    speed_mps: float = Field(default=0.25, gt=0)
    yaw_rate: float = Field(default=1.5, gt=0)
    joint_speed: float = Field(default=0.6, gt=0, le=1)
    orientation_cost: float = Field(default=0.3, ge=0)
    joint_noise_rad: float = Field(default=0.03, ge=0)
    position_noise_m: float = Field(default=0.015, ge=0)
    noise_correlation_s: float = Field(default=0.3, gt=0)


class ArmExpert:
    """An ``Expert`` that tracks a set point; subclasses move the set point.

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

        self._arm_task, self._arm_cfg = task, cfg
        self._noise, self._generator = noise, generator
        self._tracker = None if task.hand else _tracker(task, cfg, num_envs)
        scale = [cfg.position_noise_m] * 3 + [cfg.joint_noise_rad] * 3
        scale = scale if task.hand else [cfg.joint_noise_rad] * len(task.arm)
        self._scale = torch.tensor([noise * each for each in scale])
        size = len(self._scale)
        self._tremble = OrnsteinUhlenbeckNoise(
            num_envs, size, task.dt_s, cfg.noise_correlation_s, generator
        )
        self._hand_quat = torch.tensor(cfg.ee_quat)
        self._low, self._high = torch.tensor(task.act_spec.low), torch.tensor(task.act_spec.high)
        self._fresh = torch.ones(num_envs, dtype=torch.bool)
        self._pos, self._yaw = torch.zeros(num_envs, 3), torch.zeros(num_envs)

    def reset(self, ids: Tensor) -> None:
        """Begin a new episode in the envs ids (n,)."""
        self._fresh[ids] = True

    def act(self, view: SimView) -> Tensor:
        """Return the demonstrated targets (B, A), noise included."""
        ids = self._fresh.nonzero().squeeze(-1)
        if len(ids):
            self._begin(view, ids)
            self._fresh[:] = False
        grip = self._decide(view)
        quat = quat_mul(yaw_to_quat(self._yaw), self._hand_quat.expand(len(self._yaw), 4))
        arm = self._arm(self._pos, quat) + self._scale * self._tremble.sample()
        return self._arm_task.action(view, arm, grip).clamp(self._low, self._high)

    def _arm(self, pos: Tensor, quat: Tensor) -> Tensor:
        """Return the arm targets (B, M) for a set point at pos and quat."""
        if self._tracker is not None:
            return self._tracker.step(pos, quat)
        assert self._arm_task.hand is not None
        return self._arm_task.hand.pose(pos, quat)

    def _decide(self, view: SimView) -> Tensor:
        """Move the set point by one step; return the gripper's target (B,)."""
        raise NotImplementedError

    def _begin(self, view: SimView, ids: Tensor) -> None:
        """Put the set point of the envs ids (n,) at the end effector."""
        quat = view.sensor("ee_quat")[ids].float()
        upright = quat_mul(quat, quat_conj(self._hand_quat).expand(len(ids), 4))
        self._pos[ids] = view.sensor("ee_pos")[ids].float()
        self._yaw[ids] = quat_to_yaw(upright)
        if self._tracker is not None:
            self._tracker.start(ids, self._arm_task.observe(view)["joint_pos"][ids])
        self._tremble.reset(ids)

    def _move(self, waypoint: Tensor, speed_mps: float | Tensor | None = None) -> None:
        """Move the set point towards waypoint (B, 3) at its default speed or at speed_mps."""
        step = (self._arm_cfg.speed_mps if speed_mps is None else speed_mps) * self._arm_task.dt_s
        way = waypoint - self._pos
        length = way.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        self._pos = self._pos + way * (step / length).clamp(max=1)

    def _turn(self, yaw: Tensor, period: float) -> None:
        """Rotate the set point towards yaw (B,) or the nearest equivalent yaw, modulo period."""
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
