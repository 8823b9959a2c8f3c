"""A scripted demonstrator that grasps a cube from above and lifts it.

Shapes: B envs, n of them. The phases of all envs are one tensor. To the trembling of its joints
noise adds a cube that is seen in the wrong place for as long as one attempt lasts. A cube that was
lost is noticed and tried again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from robo_rl_tasks.expert import ArmExpert, ArmExpertConfig
from robo_rl_tasks.poses import planar_pose, rotate_planar
from robo_rl_tasks.rewards import distance

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask

PHASES = 4
ABOVE, DOWN, CLOSE, LIFT = range(PHASES)
_ON_THE_SPOT_M = 1e-3


class LiftExpertConfig(ArmExpertConfig):
    """Settings of ``LiftExpert``.

    Args:
        grasp_offset_m: End effector minus cube at the grasp, in axes of the hand's yaw, m.
        pregrasp_height_m: Height over the grasp from which the gripper comes down.
        lift_m: Height over the grasp that it goes up to.
        gripper_close_s: Time given to the fingers.
        waypoint_tolerance_m: Distance at which a waypoint counts as reached.
        drop_distance_m: Distance of end effector and cube at which a lifted cube counts as lost.
        perception_noise_m: Standard deviation of the cube's seen position at noise 1, per axis.
        perception_noise_rad: Standard deviation of its seen yaw at noise 1.
    """

    grasp_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pregrasp_height_m: float = 0.1
    lift_m: float = 0.12
    gripper_close_s: float = 0.3
    waypoint_tolerance_m: float = 0.02
    drop_distance_m: float = 0.05
    perception_noise_m: float = 0.025
    perception_noise_rad: float = 0.4


class LiftExpert(ArmExpert):
    """Above, down, close, lift.

    Args:
        task: The task that it demonstrates.
        cfg: Its settings.
        cube_half_m: Half the cube's edge.
        num_envs: B.
        generator: Where its noise comes from.
        noise: 0 for its best, 1 for mostly failing.
    """

    def __init__(
        self,
        task: ArmTask,
        cfg: LiftExpertConfig,
        cube_half_m: float,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        import torch

        super().__init__(task, cfg, num_envs, generator, noise)
        self._task, self._cfg, self._cube_half_m = task, cfg, cube_half_m
        self._phase, self._steps = torch.zeros(2, num_envs, dtype=torch.long)
        self._misjudged = torch.zeros(num_envs, 3)

    def _begin(self, view: SimView, ids: Tensor) -> None:
        super()._begin(view, ids)
        self._phase[ids] = self._steps[ids] = 0
        self._misjudge(ids)

    def _decide(self, view: SimView) -> Tensor:
        import torch

        cube = planar_pose(view.sensor("cube_pos"), view.sensor("cube_quat")).float()
        cube = cube + self._misjudged
        self._switch(view, self._waypoint(cube))
        self._move(self._waypoint(cube))
        # A cube looks the same after a quarter turn; once held, the hand turns no more.
        self._turn(torch.where(self._phase <= DOWN, cube[:, 2], self._yaw), math.pi / 2)
        return torch.where(self._phase < CLOSE, self._task.gripper.open, self._task.gripper.closed)

    def _misjudge(self, ids: Tensor) -> None:
        import torch

        cfg = self._cfg
        scale = torch.tensor(
            [cfg.perception_noise_m, cfg.perception_noise_m, cfg.perception_noise_rad]
        )
        drawn = torch.randn(len(ids), 3, generator=self._generator)
        self._misjudged[ids] = self._noise * scale * drawn

    def _waypoint(self, cube: Tensor) -> Tensor:
        """Where the end effector goes in the present phase, (B, 3)."""
        import torch

        cfg = self._cfg
        offset = torch.tensor(cfg.grasp_offset_m)
        over = cube[:, :2] + rotate_planar(self._yaw, offset[:2].expand(len(cube), 2))
        planar = torch.where((self._phase <= DOWN).unsqueeze(-1), over, self._pos[:, :2])
        heights = torch.tensor([cfg.pregrasp_height_m, 0.0, 0.0, cfg.lift_m])
        height = heights[self._phase] + self._cube_half_m + offset[2]
        return torch.cat([planar, height.unsqueeze(-1)], dim=-1)

    def _switch(self, view: SimView, waypoint: Tensor) -> None:
        """On to the next phase where this one is done; from a lost cube back to the first."""
        import torch

        ee_pos, cfg = view.sensor("ee_pos"), self._cfg
        arrived = distance(self._pos, waypoint) < _ON_THE_SPOT_M
        arrived &= distance(ee_pos, waypoint) < cfg.waypoint_tolerance_m
        closed = self._steps * self._task.dt_s >= cfg.gripper_close_s
        lost = distance(ee_pos, view.sensor("cube_pos")) > cfg.drop_distance_m
        held = torch.where(self._phase == CLOSE, closed, lost)
        done = torch.where(self._phase < CLOSE, arrived, held)
        self._steps = torch.where(done, 0, self._steps + 1)
        self._phase = (self._phase + done) % PHASES
        self._misjudge((done & (self._phase == ABOVE)).nonzero().squeeze(-1))
