"""Lift a cube off the table; its start position in a region and its yaw are random.

Shapes: B envs. Success is the cube's height alone; any grasp is allowed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from robo_rl import Reset, TensorSpec, quat_to_rot6d, yaw_to_quat
from robo_rl_tasks import rewards
from robo_rl_tasks.lift_expert import LiftExpert, LiftExpertConfig
from robo_rl_tasks.poses import uniform
from robo_rl_tasks.scene import add_object, tabletop
from robo_rl_tasks.tabletop_task import TabletopConfig, TabletopTask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView

# Four contacts per pad resist rotation without torsional friction, which would cost time.
GRIP = {"condim": 3, "priority": 2, "friction": [1.0, 0.01, 0.0001], "solref": [0.01, 1.0]}
REACH_SCALE_M = 0.1


class LiftCubeConfig(TabletopConfig):
    """Settings of ``LiftCube`` besides those of ``TabletopConfig``.

    Args:
        lift_height_m: Height above rest that counts as lifted.
        cube_half_m: Half the cube's edge.
        cube_mass_kg: Mass of the cube.
        spawn_low: Lower corner (x, y, yaw) of the region of starts, m and rad.
        spawn_high: Upper corner of the region of starts.
        expert: Settings of the scripted demonstrator.
    """

    lift_height_m: float = Field(default=0.08, gt=0)
    cube_half_m: float = Field(default=0.02, gt=0)
    cube_mass_kg: float = Field(default=0.05, gt=0)
    spawn_low: tuple[float, float, float] = (0.42, -0.15, -math.pi / 4)
    spawn_high: tuple[float, float, float] = (0.62, 0.15, math.pi / 4)
    expert: LiftExpertConfig = LiftExpertConfig()


class LiftCube(TabletopTask[LiftCubeConfig]):
    """The task of lifting a cube off the table.

    Args:
        cfg: Settings.
    """

    Config = LiftCubeConfig
    weights: ClassVar = {"reach": 0.02, "grasp": 0.03, "lift": 0.05}

    def scene(self) -> Any:
        """Return the scene: the robot, a table and the cube."""
        spec = tabletop(self.robot)
        half = self.cfg.cube_half_m
        box = [0.0, 0.0, 0.0, half, half, half]
        add_object(spec, "cube", [box], self.cfg.cube_mass_kg, rgba=[0.9, 0.35, 0.15, 1], **GRIP)
        return spec

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """Draw the arm's joints about its start, and the cube at rest in its region."""
        import torch

        arm = self._start(num, generator)
        low, high = torch.tensor(self.cfg.spawn_low), torch.tensor(self.cfg.spawn_high)
        pose = uniform(low, high, num, generator)
        height = torch.full((num, 1), self.cfg.cube_half_m)
        qpos = torch.cat([arm, pose[:, :2], height, yaw_to_quat(pose[:, 2])], dim=-1)
        return Reset(qpos=qpos, qvel=torch.zeros(num, arm.shape[1] + 6), goal={})

    def success(self, view: SimView) -> Tensor:
        """Return whether the cube is ``lift_height_m`` above its rest, (B,) bool."""
        return self._height(view) >= self.cfg.lift_height_m

    def expert(self, num_envs: int, generator: torch.Generator, noise: float = 0.0) -> LiftExpert:
        """Return a scripted demonstrator of num_envs envs, see ``LiftExpert``."""
        cfg = self.cfg
        return LiftExpert(self, cfg.expert, cfg.cube_half_m, num_envs, generator, noise)

    def _height(self, view: SimView) -> Tensor:
        return view.sensor("cube_pos")[:, 2] - self.cfg.cube_half_m

    def _progress(self, view: SimView) -> dict[str, Tensor]:
        holding = self.gripper_pos_for_width(2 * self.cfg.cube_half_m)
        near = rewards.closeness(
            rewards.distance(view.sensor("ee_pos"), view.sensor("cube_pos")), REACH_SCALE_M
        )
        opening = self._gripper_pos(view)[:, 0]
        return {
            "reach": near,
            "grasp": rewards.grasp(near, opening, self.gripper.open, holding),
            "lift": rewards.progress(self._height(view), 0.0, self.cfg.lift_height_m),
        }

    def _task_items(self) -> dict[str, TensorSpec]:
        return {
            "cube_pos": TensorSpec(shape=(3,), unit="m", frame="world"),
            "cube_rot6d": TensorSpec(shape=(6,), frame="world"),
            "cube_from_ee": TensorSpec(shape=(3,), unit="m", frame="world"),
        }

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        pos = view.sensor("cube_pos")
        return {
            "cube_pos": pos,
            "cube_rot6d": quat_to_rot6d(view.sensor("cube_quat")),
            "cube_from_ee": pos - view.sensor("ee_pos"),
        }
