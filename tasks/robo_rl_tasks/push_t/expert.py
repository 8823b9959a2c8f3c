"""A scripted demonstrator that pushes a T to its target, one straight push after another.

Shapes: B envs, C contacts. The demonstrator is a function of the measured state alone: it keeps
no plan and no phase, so the state explains each of its actions, and a disturbance of the T or of
the arm changes the next one. Of all contacts it takes the one whose best push brings the T nearest
to its target, less the cost of the way there (``push_model``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from pydantic import Field

from robo_rl_tasks.kinematics.cartesian_controller import CartesianController
from robo_rl_tasks.noise import OrnsteinUhlenbeckNoise
from robo_rl_tasks.noisy_expert import ArmTargets, NoisyExpert, NoisyExpertConfig
from robo_rl_tasks.poses import planar_pose, rotate_planar
from robo_rl_tasks.push_t import tee
from robo_rl_tasks.push_t.push_model import misalignment, poses_after_push, push_twist

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl import SimView
    from robo_rl_tasks.arm import ArmTask

_LENGTHS_M = (0, 1, 2, 3, 5, 7, 10, 14, 20, 27, 36, 48, 62, 80, 100, 125, 150)  # in mm
_INSIDE_M = 0.02
"""Depth of a pushing peg inside the T's outline, up to which it is in the corridor."""


class PushExpertConfig(NoisyExpertConfig):
    """Settings of ``PushExpert`` besides those of ``NoisyExpertConfig``.

    Args:
        push_height_m: Height of the peg's tip above the table during a push.
        travel_height_m: Height of the peg's tip above the table between pushes.
        tee_height_m: Height above which the peg passes over the T.
        clearance_m: Height above the T at which the peg travels at full speed.
        low_m: Height of the peg's tip below which it pushes; at twice the height it does not.
        approach_gap_m: Distance from the T at which the peg descends.
        near_m: Distance from a contact's corridor within which the peg is low.
        far_m: Distance from it beyond which the peg is high.
        lateral_m: Distance from the corridor's axis up to which the peg pushes with its full depth;
            at three times the distance it is back at the approach point.
        push_depth_m: Largest depth of the set point inside the T; a larger depth pushes faster.
        push_bias_m: Depth beyond the length of the push, which overcomes friction at its end.
        lead_m: Largest distance of the set point from the end effector, which sets the speed.
        travel_cost: Cost of a metre to another contact, in metres of misalignment.
        switch_m: Length that is added to each way to another contact.
        aligned_m: Misalignment below which the cost of travel falls in proportion to it.
        friction_units: ρ in units of the T.
        rotation_scale_m: Length that is equivalent to a radian of misalignment.
        perception_noise_m: Standard deviation of the T's seen position at noise 1, per axis.
        perception_noise_rad: Standard deviation of the T's seen yaw at noise 1.
        perception_correlation_s: Correlation time of the error of perception.
    """

    joint_noise_rad: float = Field(default=0.015, ge=0)
    """Standard deviation of the joint noise at noise 1, in rad."""
    push_height_m: float = 0.008
    travel_height_m: float = 0.055
    tee_height_m: float = 0.03
    clearance_m: float = 0.008
    low_m: float = 0.012
    approach_gap_m: float = 0.025
    near_m: float = 0.004
    far_m: float = 0.03
    lateral_m: float = 0.006
    push_depth_m: float = 0.012
    push_bias_m: float = 0.003
    lead_m: float = 0.03
    travel_cost: float = 0.1
    switch_m: float = 0.05
    aligned_m: float = 0.03
    friction_units: float = 1.7
    rotation_scale_m: float = 0.05
    perception_noise_m: float = 0.01
    perception_noise_rad: float = 0.15
    perception_correlation_s: float = 2.0


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


class _Choice(NamedTuple):
    """The best contact of each env, in axes of the T.

    Args:
        point: (B, 2) on the outline.
        normal: (B, 2), inward.
        away: (B,) distance of the peg from the contact's corridor, m.
        lateral: (B,) distance of the peg from the corridor's axis, m.
        length: (B,) of the best push, m.
    """

    point: Tensor
    normal: Tensor
    away: Tensor
    lateral: Tensor
    length: Tensor


class PushExpert(NoisyExpert):
    """A demonstrator without memory.

    The error of its perception is part of the executed action and not of the label.

    Args:
        task: The demonstrated task.
        cfg: Its settings.
        sizes: Sizes of the T and the peg.
        num_envs: B.
        generator: Source of the noise.
        noise: Noise level; best at 0, mostly failing at 1.
    """

    memoryless: ClassVar[bool] = True

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
        self._cfg, self._sizes = cfg, sizes
        self._contacts = tee.contacts(sizes.unit_m, sizes.peg_radius_m)
        self._twist = push_twist(*self._contacts, cfg.friction_units * sizes.unit_m)
        self._lengths = torch.tensor(_LENGTHS_M) * 1e-3
        self._controller = task.hand or CartesianController(task.robot, task.arm, task.dt_s)
        error = [cfg.perception_noise_m, cfg.perception_noise_m, cfg.perception_noise_rad]
        self._error = noise * torch.tensor(error)
        self._perception = OrnsteinUhlenbeckNoise(
            num_envs, 3, task.dt_s, cfg.perception_correlation_s, generator
        )

    def _begin(self, view: SimView, ids: Tensor) -> None:
        super()._begin(view, ids)
        self._perception.reset(ids)

    def _targets(self, view: SimView) -> ArmTargets:
        import torch

        pose = planar_pose(view.sensor("tee_pos"), view.sensor("tee_quat")).float()
        label = self._arm(view, pose)
        act = label
        if self._noise:
            act = self._arm(view, pose + self._error * self._perception.sample())
        return ArmTargets(act, label, torch.zeros(len(pose)))

    def _arm(self, view: SimView, pose: Tensor) -> Tensor:
        """Return the arm targets (B, M) for the T at pose (B, 3)."""
        goal, hand = view.goal["target"], view.sensor("ee_pos").float()
        target = planar_pose(goal[:, :3], goal[:, 3:]).float()
        way = self._waypoint(pose, target, hand) - hand
        length = way.norm(dim=-1, keepdim=True).clamp(min=1e-9)
        pos = hand + way * (self._cfg.lead_m / length).clamp(max=1)
        wanted = self._controller.pose(pos, self._hand_quat.expand(len(pos), 4))
        if self._arm_task.hand:
            return wanted
        return self._controller.targets(view.qpos, wanted)

    def _waypoint(self, pose: Tensor, target: Tensor, hand: Tensor) -> Tensor:
        """Return where the end effector (B, 3) goes, a continuous function for one contact.

        Far from the contact's corridor the peg travels high, and it waits for its height. The
        nearer it is, the lower it goes, and in the corridor it pushes.
        """
        import torch

        cfg, sizes = self._cfg, self._sizes
        peg = rotate_planar(-pose[:, 2], hand[:, :2] - pose[:, :2])
        height = hand[:, 2] - sizes.peg_length_m
        best = self._choose(pose, target, peg)
        far = _ramp(best.away, cfg.near_m, cfg.far_m)
        clear = _ramp(height, cfg.tee_height_m, cfg.tee_height_m + cfg.clearance_m)
        pushes = (1 - _ramp(best.lateral, cfg.lateral_m, 3 * cfg.lateral_m)) * (
            1 - _ramp(height, cfg.low_m, 2 * cfg.low_m)
        )
        depth = (best.length + cfg.push_bias_m).clamp(max=cfg.push_depth_m)
        into = pushes * (depth + cfg.approach_gap_m) - cfg.approach_gap_m - sizes.peg_radius_m
        spot = best.point + best.normal * into[:, None]
        spot = peg + (1 - far * (1 - clear))[:, None] * (spot - peg)
        tip = cfg.push_height_m + far * (cfg.travel_height_m - cfg.push_height_m)
        planar = pose[:, :2] + rotate_planar(pose[:, 2], spot)
        return torch.cat([planar, (tip + sizes.peg_length_m)[:, None]], dim=-1)

    def _choose(self, pose: Tensor, target: Tensor, peg: Tensor) -> _Choice:
        """Return the best contact for a peg (B, 2) in axes of the T."""
        cfg, (point, normal) = self._cfg, self._contacts
        after = poses_after_push(pose, self._twist, self._lengths)
        apart = misalignment(after, target[:, None, None], cfg.rotation_scale_m).sqrt()
        best = apart.min(dim=-1)
        away, lateral = self._corridors(peg)
        now = misalignment(pose, target, cfg.rotation_scale_m).sqrt()[:, None]
        way = away + cfg.switch_m * _ramp(away, 0.0, cfg.far_m)
        cost = best.values + cfg.travel_cost * way * (now / cfg.aligned_m).clamp(max=1.0)
        chosen = cost.argmin(dim=-1, keepdim=True)
        away, lateral, length = (
            each.gather(1, chosen)[:, 0] for each in (away, lateral, self._lengths[best.indices])
        )
        return _Choice(point[chosen[:, 0]], normal[chosen[:, 0]], away, lateral, length)

    def _corridors(self, peg: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distances of a peg (B, 2) from each corridor and from its axis, (B, C) each.

        A corridor is the line from a contact's approach point to the depth of a push.
        """
        cfg, (point, normal) = self._cfg, self._contacts
        gap = peg[:, None] - point
        along = (gap * normal).sum(-1) + self._sizes.peg_radius_m
        lateral = (gap[..., 0] * normal[:, 1] - gap[..., 1] * normal[:, 0]).abs()
        beyond = along - along.clamp(-cfg.approach_gap_m, _INSIDE_M)
        return (lateral.square() + beyond.square()).sqrt(), lateral


def _ramp(x: Tensor, low: float, high: float) -> Tensor:
    """Return 0 up to ``low``, 1 from ``high`` on, and linear between."""
    return ((x - low) / (high - low)).clamp(0.0, 1.0)
