"""A scripted demonstrator that pushes a T to its target, one straight push after another.

Shapes: B envs, C contacts, S push lengths. Pushes are planned with a quasi-static model: a push of
length s along the normal n at point c moves the T by the twist

    s / (1 + m²/ρ²) · (n, m/ρ²),    m = c × n.

ρ is the ratio of the largest friction moment to the largest friction force (Goyal, Ruina and
Papadopoulos 1991, limit surface as an ellipsoid; the peg is assumed frictionless). The planner
selects the contact whose best push brings the T nearest to its target, and replans at each step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from robo_rl_tasks.phased_expert import PhasedExpert, PhasedExpertConfig
from robo_rl_tasks.poses import planar_pose, rotate_planar, wrap_angle
from robo_rl_tasks.push_t import tee

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask

RAISE, TRAVEL, LOWER, PUSH = range(4)
_LENGTHS_M = (0, 1, 2, 3, 5, 7, 10, 14, 20, 27, 36, 48, 62, 80, 100, 125, 150)  # in mm


class PushExpertConfig(PhasedExpertConfig):
    """Settings of ``PushExpert`` besides those of ``PhasedExpertConfig``.

    Args:
        push_height_m: Height of the peg's tip above the table during a push.
        travel_height_m: Height of the peg's tip above the table between pushes.
        approach_gap_m: Distance from the T at which the peg descends.
        push_depth_m: Largest depth of the set point inside the T; a larger depth pushes faster.
        push_tolerance_m: A push ends when its remaining length is below this.
        push_timeout_s: Time limit of one push.
        friction_units: ρ in units of the T.
        rotation_scale_m: Length that is equivalent to a radian of misalignment.
    """

    speed_mps: float = Field(default=0.3, gt=0)
    """Speed of the set point, in m/s."""
    joint_noise_rad: float = Field(default=0.015, ge=0)
    """Standard deviation of the joint noise at noise 1, in rad."""
    push_height_m: float = 0.008
    travel_height_m: float = 0.045
    approach_gap_m: float = 0.015
    push_depth_m: float = 0.012
    push_tolerance_m: float = 0.001
    push_timeout_s: float = 3.0
    waypoint_tolerance_m: float = 0.012
    """Distance at which a waypoint counts as reached."""
    friction_units: float = 1.7
    rotation_scale_m: float = 0.05
    perception_noise_m: float = 0.01
    """Standard deviation of the T's seen position at noise 1, per axis."""
    perception_noise_rad: float = 0.15
    """Standard deviation of the T's seen yaw at noise 1."""


class Sizes(NamedTuple):
    """Sizes of the T and of the peg.

    Args:
        unit_m: Width of the T's bar and stem.
        peg_radius_m: Radius of the peg.
        peg_length_m: Length of the peg beyond the end effector.
    """

    unit_m: float
    peg_radius_m: float
    peg_length_m: float


class PushExpert(PhasedExpert):
    """A demonstrator with four cyclic phases: raise, travel, lower, push.

    Args:
        task: The demonstrated task.
        cfg: Its settings.
        sizes: Sizes of the T and the peg.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level; best at 0, mostly failing at 1.
    """

    phases = 4

    def __init__(
        self,
        task: ArmTask,
        cfg: PushExpertConfig,
        sizes: Sizes,
        num_envs: int,
        generator: torch.Generator,
        noise: float,
    ) -> None:
        import torch

        super().__init__(task, cfg, num_envs, generator, noise)
        self._task, self._cfg, self._sizes = task, cfg, sizes
        self._contacts = tee.contacts(sizes.unit_m, sizes.peg_radius_m)
        self._twist = push_twist(*self._contacts, cfg.friction_units * sizes.unit_m)
        self._lengths = torch.tensor(_LENGTHS_M) * 1e-3
        self._contact = torch.zeros(num_envs, dtype=torch.long)

    def _decide(self, view: SimView) -> Tensor:
        import torch

        pose = planar_pose(view.sensor("tee_pos"), view.sensor("tee_quat")).float()
        goal = view.goal["target"]
        target = planar_pose(goal[:, :3], goal[:, 3:])
        length = self._length(pose + self._misjudged, target)
        self._switch(view, self._waypoint(pose + self._misjudged, length), length)
        self._choose(pose, target)
        self._move(self._waypoint(pose + self._misjudged, length))
        self._turn(torch.zeros(len(pose)), 2 * math.pi)
        return torch.zeros(len(pose))

    def _length(self, pose: Tensor, target: Tensor) -> Tensor:
        """Return the length (B,) of the best push at each env's current contact."""
        after = poses_after_push(pose, self._twist[self._contact].unsqueeze(1), self._lengths)
        apart = misalignment(after, target[:, None, None], self._cfg.rotation_scale_m)
        return self._lengths[apart[:, 0].argmin(dim=-1)]

    def _switch(self, view: SimView, waypoint: Tensor, length: Tensor) -> None:
        """Advance to the next phase where the current one is done."""
        import torch

        late = self._steps * self._task.dt_s >= self._cfg.push_timeout_s

        over = (length < self._cfg.push_tolerance_m) | late
        self._advance(torch.where(self._phase == PUSH, over, self._arrived(view, waypoint)))

    def _choose(self, pose: Tensor, target: Tensor) -> None:
        """Where an env is raised, draw the perception error and select the best contact."""
        ids = ((self._phase == TRAVEL) & (self._steps == 0)).nonzero().squeeze(-1)
        if not len(ids):
            return
        self._misjudge(ids)
        after = poses_after_push(pose[ids] + self._misjudged[ids], self._twist, self._lengths)
        apart = misalignment(after, target[ids, None, None], self._cfg.rotation_scale_m)
        self._contact[ids] = apart.amin(dim=-1).argmin(dim=-1)

    def _waypoint(self, pose: Tensor, length: Tensor) -> Tensor:
        """Return the end effector's waypoint in the current phase, (B, 3)."""
        import torch

        cfg, sizes = self._cfg, self._sizes
        point = self._contacts.point[self._contact]
        normal = self._contacts.normal[self._contact]
        into = torch.where(
            self._phase == PUSH, length.clamp(max=cfg.push_depth_m), -cfg.approach_gap_m
        )
        peg = point + normal * (into - sizes.peg_radius_m).unsqueeze(-1)
        planar = pose[:, :2] + rotate_planar(pose[:, 2], peg)
        planar = torch.where((self._phase == RAISE).unsqueeze(-1), self._pos[:, :2], planar)
        tip = torch.where(self._phase <= TRAVEL, cfg.travel_height_m, cfg.push_height_m)
        return torch.cat([planar, (tip + sizes.peg_length_m).unsqueeze(-1)], dim=-1)


def push_twist(point: Tensor, normal: Tensor, radius: float) -> Tensor:
    """Return the twist (C, 3) per metre along normal (C, 2) at point (C, 2); radius is ρ."""
    import torch

    moment = point[:, 0] * normal[:, 1] - point[:, 1] * normal[:, 0]
    share = 1 / (1 + (moment / radius) ** 2)
    return torch.cat([normal, (moment / radius**2).unsqueeze(-1)], dim=-1) * share.unsqueeze(-1)


def poses_after_push(pose: Tensor, twist: Tensor, lengths: Tensor) -> Tensor:
    """Return poses (B, C, S, 3) after twists (…, C, 3), constant in the body, for lengths (S,)."""
    import torch

    move = twist.unsqueeze(-2) * lengths.unsqueeze(-1)
    turn = move[..., 2]
    # sin(a)/a and (1 - cos(a))/a without the 0/0.
    along = torch.sinc(turn / math.pi)
    across = torch.sinc(turn / (2 * math.pi)) * torch.sin(turn / 2)
    x = along * move[..., 0] - across * move[..., 1]
    y = across * move[..., 0] + along * move[..., 1]
    place = rotate_planar(pose[:, None, None, 2], torch.stack([x, y], dim=-1))
    yaw = pose[:, None, None, 2] + turn
    return torch.cat([pose[:, None, None, :2] + place, yaw.unsqueeze(-1)], dim=-1)


def misalignment(pose: Tensor, target: Tensor, rotation_scale_m: float) -> Tensor:
    """Return the squared distance of poses (…, 3), a radian as ``rotation_scale_m``; m²."""
    shift = (pose[..., :2] - target[..., :2]).square().sum(dim=-1)
    return shift + (rotation_scale_m * wrap_angle(pose[..., 2] - target[..., 2])).square()
