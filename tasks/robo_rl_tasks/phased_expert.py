"""A demonstrator that cycles through phases, each with its waypoint.

Shapes: B envs, n of them. The phases of all envs are one tensor. Noise adds an error to the
perceived pose of the object, constant during one attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from robo_rl_tasks.expert import ArmExpert, ArmExpertConfig
from robo_rl_tasks.rewards import distance

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask

_ON_THE_SPOT_M = 1e-3


class PhasedExpertConfig(ArmExpertConfig):
    """Settings of ``PhasedExpert`` besides those of ``ArmExpertConfig``.

    Args:
        waypoint_tolerance_m: Distance at which a waypoint counts as reached.
        perception_noise_m: Standard deviation of the perceived object position at noise 1, per
            axis.
        perception_noise_rad: Standard deviation of the perceived object yaw at noise 1.
    """

    waypoint_tolerance_m: float = 0.02
    perception_noise_m: float = 0.025
    perception_noise_rad: float = 0.4


class PhasedExpert(ArmExpert):
    """An ``ArmExpert`` with phases; subclasses define the phases and their ends.

    Args:
        task: The demonstrated task.
        cfg: Settings.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level; best at 0, mostly failing at 1.
    """

    phases: ClassVar[int]

    def __init__(
        self,
        task: ArmTask,
        cfg: PhasedExpertConfig,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        import torch

        super().__init__(task, cfg, num_envs, generator, noise)
        self._arrived_m = cfg.waypoint_tolerance_m
        self._misjudged_by = torch.tensor(
            [cfg.perception_noise_m, cfg.perception_noise_m, cfg.perception_noise_rad]
        )
        self._phase, self._steps = torch.zeros(2, num_envs, dtype=torch.long)
        self._misjudged = torch.zeros(num_envs, 3)

    def _begin(self, view: SimView, ids: Tensor) -> None:
        super()._begin(view, ids)
        self._phase[ids] = self._steps[ids] = 0

    def _misjudge(self, ids: Tensor) -> None:
        """Draw the perception error (x, y, yaw) of the object for the envs ids (n,)."""
        import torch

        drawn = torch.randn(len(ids), 3, generator=self._generator)
        self._misjudged[ids] = self._noise * self._misjudged_by * drawn

    def _arrived(self, view: SimView, waypoint: Tensor) -> Tensor:
        """Return whether set point and end effector (B,) are at the waypoint (B, 3)."""
        arrived = distance(self._pos, waypoint) < _ON_THE_SPOT_M
        return arrived & (distance(view.sensor("ee_pos"), waypoint) < self._arrived_m)

    def _advance(self, done: Tensor) -> None:
        """Advance to the next phase, cyclically, where the phase is done (B,)."""
        import torch

        self._steps = torch.where(done, 0, self._steps + 1)
        self._phase = (self._phase + done) % self.phases
