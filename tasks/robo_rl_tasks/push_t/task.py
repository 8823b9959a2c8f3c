"""Push a T on the table to a target pose with a peg held in the hand.

Shapes: B envs. The T stands on three small feet, so that mostly three points have friction with
the table, and physics is fast. Success is the fraction of the target that the T covers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator

from robo_rl import Reset, TensorSpec, yaw_to_quat
from robo_rl_tasks import rewards
from robo_rl_tasks.device_copies import DeviceCopies
from robo_rl_tasks.poses import away_from, planar_pose, rotate_planar, uniform, wrap_angle
from robo_rl_tasks.push_t import tee
from robo_rl_tasks.push_t.expert import PushExpert, PushExpertConfig, Sizes
from robo_rl_tasks.push_t.overlap import overlap_area, relative_pose
from robo_rl_tasks.scene import add_feet, add_marker, add_object, add_peg, tabletop
from robo_rl_tasks.tabletop_task import TabletopConfig, TabletopTask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView

TARGET = "target"
PLACE_SCALE_M, NEAR_SCALE_M = 0.1, 0.2
NEARLY = 0.95
"""Share of ``success_overlap`` that no T covers at its start."""
# The robot (type 2) touches the T's boxes. The table (type 1) touches them only where the T is
# pressed down beside its feet; without this contact the T would turn over.
PUSHED = {"contype": 0, "conaffinity": 3, "condim": 3, "priority": 2, "friction": [0.2, 0, 0]}
FOOT_FRICTION, FOOT_M = 0.4, 5e-4


class PushTConfig(TabletopConfig):
    """Settings of ``PushT`` besides those of ``TabletopConfig``.

    Args:
        success_overlap: Fraction of the target's area that must be covered.
        unit_m: Width of the T's bar and stem; the T is 4 of them long.
        height_m: Height of the T.
        mass_kg: Mass of the T.
        peg_radius_m: Radius of the peg.
        peg_length_m: Length of the peg beyond the end effector.
        start_low: Lower corner (x, y) of the region of starts, m.
        start_high: Upper corner of the region of starts, m.
        target_low: Lower corner (x, y, yaw) of the region of targets, m and rad.
        target_high: Upper corner of the region of targets.
        min_rotation: Smallest angle between start and target, rad.
        max_rotation: Largest angle between start and target, rad.
        expert: Settings of the scripted demonstrator.
    """

    success_overlap: float = Field(default=0.9, gt=0, lt=1)
    unit_m: float = Field(default=0.03, gt=0)
    height_m: float = Field(default=0.03, gt=0)
    mass_kg: float = Field(default=0.1, gt=0)
    peg_radius_m: float = Field(default=0.01, gt=0)
    peg_length_m: float = Field(default=0.06, gt=0)
    start_low: tuple[float, float] = (0.42, -0.15)
    start_high: tuple[float, float] = (0.58, 0.15)
    target_low: tuple[float, float, float] = (0.45, -0.1, -math.pi)
    target_high: tuple[float, float, float] = (0.55, 0.1, math.pi)
    min_rotation: float = Field(default=0.5, ge=0.3)
    max_rotation: float = Field(default=math.pi, le=math.pi)
    episode_s: float = Field(default=15.0, gt=0)
    """Time limit of an episode."""
    expert: PushExpertConfig = PushExpertConfig()

    @field_validator("max_rotation")
    @classmethod
    def _at_least_the_smallest(cls, value: float, info: ValidationInfo) -> float:
        if value < (smallest := info.data.get("min_rotation", value)):
            raise ValueError(f"expected at least min_rotation, {smallest}, found {value}")
        return value


class PushT(TabletopTask[PushTConfig]):
    """The task of pushing a T onto its target; the gripper holds a peg and does not move.

    Args:
        cfg: Settings.
    """

    Config = PushTConfig
    weights: ClassVar = {"overlap": 0.04, "place": 0.03, "turn": 0.02, "near": 0.01}

    def __init__(self, cfg: PushTConfig) -> None:
        self.boxes = tee.boxes(cfg.unit_m)
        self._boxes = DeviceCopies(self.boxes)
        self._area = tee.AREA * cfg.unit_m**2
        super().__init__(cfg, holds_m=2 * cfg.peg_radius_m)

    def scene(self) -> Any:
        """Return the scene: the robot with a peg, a table, the T, and its target as a marker."""
        cfg = self.cfg
        spec = tabletop(self.robot)
        add_peg(spec, self.robot.frames.ee_site, cfg.peg_radius_m, cfg.peg_length_m)
        blue = [0.2, 0.45, 0.85, 1]
        body = add_object(spec, "tee", self._solids(cfg.height_m), cfg.mass_kg, rgba=blue, **PUSHED)
        below = cfg.height_m / 2 + FOOT_M
        feet = [[x * cfg.unit_m, y * cfg.unit_m, -below] for x, y in tee.FEET]
        add_feet(body, feet, FOOT_FRICTION)
        add_marker(spec, TARGET, self._solids(1e-3))
        return spec

    def reset(self, num: int, generator: torch.Generator) -> Reset:
        """Draw the arm's joints about its start, and T and target with an angle between them.

        A T that nearly covers its target enough is moved away from it, as far as the box allows.
        """
        import torch

        cfg = self.cfg
        arm = self._start(num, generator)
        target = _draw(cfg.target_low, cfg.target_high, num, generator)
        place = _draw(cfg.start_low, cfg.start_high, num, generator)
        turn = _draw((cfg.min_rotation,), (cfg.max_rotation,), num, generator)[:, 0]
        side = torch.randint(2, (num,), generator=generator) * 2 - 1
        yaw = wrap_angle(target[:, 2] + side * turn)
        place = self._off_target(place, yaw, target)
        free = _pose(place, cfg.height_m / 2 + FOOT_M, yaw)
        goal = {TARGET: _pose(target[:, :2], 0.0, target[:, 2])}
        qvel = torch.zeros(num, arm.shape[1] + 6)
        return Reset(qpos=torch.cat([arm, free], dim=-1), qvel=qvel, goal=goal)

    def reward(self, view: SimView, act: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the reward of ``TabletopTask``; the overlap, its main cost, is computed once."""
        del act
        overlap = self.overlap(view)
        success = overlap >= self.cfg.success_overlap
        return self._rewarded(success, lambda: {"overlap": overlap, **self._progress(view)})

    def success(self, view: SimView) -> Tensor:
        """Return whether the T covers ``success_overlap`` of its target, (B,) bool."""
        return self.overlap(view) >= self.cfg.success_overlap

    def overlap(self, view: SimView) -> Tensor:
        """Return the fraction (B,) of the target that the T covers."""
        pose = tee_pose(view)
        return overlap_area(self._boxes.on(pose.device), pose, target_pose(view)) / self._area

    def expert(self, num_envs: int, generator: torch.Generator, noise: float = 0.0) -> PushExpert:
        """Return a scripted demonstrator of num_envs envs, see ``PushExpert``."""
        cfg = self.cfg
        sizes = Sizes(cfg.unit_m, cfg.peg_radius_m, cfg.peg_length_m)
        return PushExpert(self, cfg.expert, sizes, num_envs, generator, noise)

    def _off_target(self, place: Tensor, yaw: Tensor, target: Tensor) -> Tensor:
        """Return places (n, 2) at which a T of yaw (n,) covers little of its target (n, 3)."""
        import torch

        pose = torch.cat([place, yaw[:, None]], dim=-1)
        covered = overlap_area(self.boxes, pose, target) / self._area
        low, high = torch.tensor(self.cfg.start_low), torch.tensor(self.cfg.start_high)
        corners = self.boxes[:, :2].abs() + self.boxes[:, 2:]
        apart = 2 * float(corners.norm(dim=-1).max())
        moved = away_from(place, target[:, :2], apart, low, high)
        return torch.where((covered < NEARLY * self.cfg.success_overlap)[:, None], place, moved)

    def _solids(self, height: float) -> list[list[float]]:
        return [[x, y, 0.0, a, b, height / 2] for x, y, a, b in self.boxes.tolist()]

    def _progress(self, view: SimView) -> dict[str, Tensor]:
        pose, target = tee_pose(view), target_pose(view)
        apart = rewards.distance(pose[:, :2], target[:, :2])
        hand = rewards.distance(pose[:, :2], view.sensor("ee_pos")[:, :2])
        turn = wrap_angle(pose[:, 2] - target[:, 2]).abs()
        return {
            "place": rewards.closeness(apart, PLACE_SCALE_M),
            "turn": rewards.progress(turn, math.pi, 0.0),
            "near": rewards.closeness(hand, NEAR_SCALE_M),
        }

    def _task_items(self) -> dict[str, TensorSpec]:
        point = TensorSpec(shape=(2,), unit="m", frame="world")
        heading = TensorSpec(shape=(2,), frame="world", names=("cos", "sin"))
        return {
            "tee_pos": point,
            "tee_heading": heading,
            "tee_from_ee": point,
            "target_pos": point,
            "target_heading": heading,
            "ee_in_tee": TensorSpec(shape=(2,), unit="m", frame="tee"),
            "target_in_tee": TensorSpec(shape=(2,), unit="m", frame="tee"),
            "target_heading_in_tee": TensorSpec(shape=(2,), frame="tee", names=("cos", "sin")),
        }

    def _observe_task(self, view: SimView) -> dict[str, Tensor]:
        pose, target = tee_pose(view), target_pose(view)
        hand = view.sensor("ee_pos")[:, :2]
        aim = relative_pose(target, pose)
        return {
            "tee_pos": pose[:, :2],
            "tee_heading": _heading(pose),
            "tee_from_ee": pose[:, :2] - hand,
            "target_pos": target[:, :2],
            "target_heading": _heading(target),
            "ee_in_tee": rotate_planar(-pose[:, 2], hand - pose[:, :2]),
            "target_in_tee": aim[:, :2],
            "target_heading_in_tee": _heading(aim),
        }


def tee_pose(view: SimView) -> Tensor:
    """Return the measured pose of the T as (x, y, yaw), (B, 3)."""
    return planar_pose(view.sensor("tee_pos"), view.sensor("tee_quat"))


def target_pose(view: SimView) -> Tensor:
    """Return the target pose as (x, y, yaw), (B, 3)."""
    target = view.goal[TARGET]
    return planar_pose(target[:, :3], target[:, 3:])


def _heading(pose: Tensor) -> Tensor:
    import torch

    return torch.stack([torch.cos(pose[:, 2]), torch.sin(pose[:, 2])], dim=-1)


def _pose(place: Tensor, height: float, yaw: Tensor) -> Tensor:
    """Return the pose (n, 7) of a planar position (n, 2) and yaw (n,) at a height."""
    import torch

    level = place.new_full((len(place), 1), height)
    return torch.cat([place, level, yaw_to_quat(yaw)], dim=-1)


def _draw(
    low: tuple[float, ...], high: tuple[float, ...], num: int, generator: torch.Generator
) -> Tensor:
    import torch

    return uniform(torch.tensor(low), torch.tensor(high), num, generator)
