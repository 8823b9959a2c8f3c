"""A scripted demonstrator that grasps a cube from above and lifts it.

Shapes: B envs, n of them. The demonstrator detects a lost cube and tries again.
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
    """Settings of ``LiftExpert`` besides those of ``PhasedExpertConfig``.

    Args:
        grasp_offset_m: End effector minus cube at the grasp, in axes of the hand's yaw, m.
        pregrasp_height_m: Height above the grasp from which the gripper descends.
        lift_m: Height above the grasp to which the gripper rises.
        gripper_close_s: Time for the fingers to close.
        drop_distance_m: Distance of end effector and cube at which a lifted cube counts as lost.
    """

    grasp_offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    pregrasp_height_m: float = 0.1
    lift_m: float = 0.12
    gripper_close_s: float = 0.3
    drop_distance_m: float = 0.05


class LiftExpert(PhasedExpert):
    """A demonstrator with four phases: move above the cube, descend, close, lift.

    Args:
        task: The demonstrated task.
        cfg: Its settings.
        cube_half_m: Half the cube's edge.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level; best at 0, mostly failing at 1.
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
        # A cube looks the same after a quarter turn; once it is held, the hand keeps its yaw.
        self._turn(torch.where(self._phase <= DOWN, cube[:, 2], self._yaw), math.pi / 2)
        return torch.where(self._phase < CLOSE, self._task.gripper.open, self._task.gripper.closed)

    def _waypoint(self, cube: Tensor) -> Tensor:
        """Return the end effector's waypoint in the current phase, (B, 3)."""
        import torch

        cfg = self._cfg
        offset = torch.tensor(cfg.grasp_offset_m)
        over = cube[:, :2] + rotate_planar(self._yaw, offset[:2].expand(len(cube), 2))
        planar = torch.where((self._phase <= DOWN).unsqueeze(-1), over, self._pos[:, :2])
        heights = torch.tensor([cfg.pregrasp_height_m, 0.0, 0.0, cfg.lift_m])
        height = heights[self._phase] + self._cube_half_m + offset[2]
        return torch.cat([planar, height.unsqueeze(-1)], dim=-1)

    def _switch(self, view: SimView, waypoint: Tensor) -> None:
        """Advance where the phase is done; return to the first phase where the cube is lost."""
        import torch

        closed = self._steps * self._task.dt_s >= self._cfg.gripper_close_s
        lost = distance(view.sensor("ee_pos"), view.sensor("cube_pos")) > self._cfg.drop_distance_m
        held = torch.where(self._phase == CLOSE, closed, lost)
        done = torch.where(self._phase < CLOSE, self._arrived(view, waypoint), held)
        self._advance(done)
        self._misjudge((done & (self._phase == ABOVE)).nonzero().squeeze(-1))
