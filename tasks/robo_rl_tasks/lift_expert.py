"""A scripted demonstrator that grasps a cube from above and lifts it.

Shapes: B envs, n of them. A cube that was lost is noticed and tried again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from robo_rl_tasks.phased_expert import PhasedExpert, PhasedExpertConfig
from robo_rl_tasks.poses import planar_pose, rotate_planar
from robo_rl_tasks.rewards import distance

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask

ABOVE, DOWN, CLOSE, LIFT = range(4)


class LiftExpertConfig(PhasedExpertConfig):
    """Settings of ``LiftExpert`` beside those of ``PhasedExpertConfig``.

    Args:
        grasp_offset_m: End effector minus cube at the grasp, in axes of the hand's yaw, m.
        pregrasp_height_m: Height over the grasp from which the gripper comes down.
        lift_m: Height over the grasp that it goes up to.
        gripper_close_s: Time given to the fingers.
        drop_distance_m: Distance of end effector and cube at which a lifted cube counts as lost.
    """

    grasp_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pregrasp_height_m: float = 0.1
    lift_m: float = 0.12
    gripper_close_s: float = 0.3
    drop_distance_m: float = 0.05


class LiftExpert(PhasedExpert):
    """Above, down, close, lift.

    Args:
        task: The task that it demonstrates.
        cfg: Its settings.
        cube_half_m: Half the cube's edge.
        num_envs: B.
        generator: Where its noise comes from.
        noise: 0 for its best, 1 for mostly failing.
    """

    phases = 4

    def __init__(
        self,
        task: ArmTask,
        cfg: LiftExpertConfig,
        cube_half_m: float,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        super().__init__(task, cfg, num_envs, generator, noise)
        self._task, self._cfg, self._cube_half_m = task, cfg, cube_half_m

    def _begin(self, view: SimView, ids: Tensor) -> None:
        super()._begin(view, ids)
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

        closed = self._steps * self._task.dt_s >= self._cfg.gripper_close_s
        lost = distance(view.sensor("ee_pos"), view.sensor("cube_pos")) > self._cfg.drop_distance_m
        held = torch.where(self._phase == CLOSE, closed, lost)
        done = torch.where(self._phase < CLOSE, self._arrived(view, waypoint), held)
        self._advance(done)
        self._misjudge((done & (self._phase == ABOVE)).nonzero().squeeze(-1))
