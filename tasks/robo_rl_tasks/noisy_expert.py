"""Base of scripted demonstrators of an arm: executed actions tremble, and their labels do not.

Shapes: B envs, n of them, A act_dim, M arm targets. Noise makes demonstrations imperfect, like a
trembling hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from robo_rl import ConfigModel, Demonstration
from robo_rl_tasks.noise import OrnsteinUhlenbeckNoise

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask


class NoisyExpertConfig(ConfigModel):
    """Settings of ``NoisyExpert``.

    Args:
        ee_quat: Orientation of the end effector at yaw 0, wxyz; by default it looks down.
        joint_noise_rad: Standard deviation of the noise of joints and rotations at noise level 1.
        position_noise_m: Standard deviation of the noise of positions at noise level 1, where
            actions are poses.
        noise_correlation_s: Correlation time of the noise.
    """

    ee_quat: tuple[float, float, float, float] = (0.0, 1.0, 0.0, 0.0)
    joint_noise_rad: float = Field(default=0.03, ge=0)
    position_noise_m: float = Field(default=0.015, ge=0)
    noise_correlation_s: float = Field(default=0.3, gt=0)


class ArmTargets(NamedTuple):
    """What a demonstrator wants before it trembles.

    Args:
        act: (B, M), the executed arm targets.
        label: (B, M), the arm targets that a policy clones.
        grip: (B,), the gripper's target.
    """

    act: Tensor
    label: Tensor
    grip: Tensor


class NoisyExpert:
    """An ``Expert`` whose executed arm targets tremble; subclasses choose the targets.

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
        cfg: NoisyExpertConfig,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        import torch

        self._arm_task, self._noise, self._generator = task, noise, generator
        scale = [cfg.position_noise_m] * 3 + [cfg.joint_noise_rad] * 3
        scale = scale if task.hand else [cfg.joint_noise_rad] * len(task.arm)
        self._scale = torch.tensor([noise * each for each in scale])
        self._tremble = OrnsteinUhlenbeckNoise(
            num_envs, len(self._scale), task.dt_s, cfg.noise_correlation_s, generator
        )
        self._hand_quat = torch.tensor(cfg.ee_quat)
        self._low, self._high = torch.tensor(task.act_spec.low), torch.tensor(task.act_spec.high)
        self._fresh = torch.ones(num_envs, dtype=torch.bool)

    def reset(self, ids: Tensor) -> None:
        """Begin a new episode in the envs ids (n,)."""
        self._fresh[ids] = True

    def act(self, view: SimView) -> Demonstration:
        """Return the demonstrated targets with their noise, and without it as the label.

        A change without noise would undo the noise of the last command, and the changes of a chunk
        would undo it several times. Changes are therefore their own labels.
        """
        ids = self._fresh.nonzero().squeeze(-1)
        if len(ids):
            self._begin(view, ids)
            self._fresh[:] = False
        act, label, grip = self._targets(view)
        act = self._action(view, act + self._scale * self._tremble.sample(), grip)
        if any(self._arm_task.act_spec.is_delta):
            return Demonstration(act, act)
        return Demonstration(act, self._action(view, label, grip))

    def _targets(self, view: SimView) -> ArmTargets:
        """Return what the demonstrator wants."""
        raise NotImplementedError

    def _begin(self, view: SimView, ids: Tensor) -> None:
        """Prepare for new episodes in the envs ids (n,)."""
        del view
        self._tremble.reset(ids)

    def _action(self, view: SimView, arm: Tensor, grip: Tensor) -> Tensor:
        """Return the action (B, A) for arm targets (B, M) and gripper targets (B,)."""
        return self._arm_task.action(view, arm, grip).clamp(self._low, self._high)
