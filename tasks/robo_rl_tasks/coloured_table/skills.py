"""When a goal is reached, and how far an arm is on its way.

Shapes: B envs, C cubes, P pads. Lengths in m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from robo_rl import quat_to_yaw
from robo_rl_tasks import rewards
from robo_rl_tasks.coloured_table.goals import CUBES, PADS

if TYPE_CHECKING:
    from torch import Tensor

    from robo_rl import SimView

HOVER_M, HOVER_WITHIN_M = 0.06, 0.025
LIFT_M = 0.06
PUSH_WITHIN_M = 0.04
PRESS_BELOW_M, PRESS_WITHIN_M = 0.02, 0.03
REACH_SCALE_M, PUSH_SCALE_M = 0.15, 0.15


class Scene(NamedTuple):
    """What a goal is about, and the hand.

    Args:
        skill: (B,) int64, index of the skill.
        cube: (B, 3), position of the named cube; of the first cube where none is named.
        pad: (B, 2), centre of the named pad; of the first pad where none is named.
        hand: (B, 3), position of the end effector.
        opening: (B,) measured gripper position.
    """

    skill: Tensor
    cube: Tensor
    pad: Tensor
    hand: Tensor
    opening: Tensor


def cube_positions(view: SimView) -> Tensor:
    """Return the measured positions of the cubes, (B, C, 3)."""
    return view.sensor(*(f"{colour}_cube_pos" for colour in CUBES)).unflatten(1, (-1, 3))


def cube_quats(view: SimView) -> Tensor:
    """Return the measured orientations of the cubes, (B, C, 4)."""
    return view.sensor(*(f"{colour}_cube_quat" for colour in CUBES)).unflatten(1, (-1, 4))


def cube_headings(view: SimView) -> Tensor:
    """Return cos and sin of four times the yaw of the cubes, (B, C, 2): a cube has four sides."""
    import torch

    yaw = 4 * quat_to_yaw(cube_quats(view))
    return torch.stack([yaw.cos(), yaw.sin()], dim=-1)


def pad_positions(view: SimView) -> Tensor:
    """Return the centres of the pads, (B, P, 2)."""
    import torch

    return torch.stack([view.goal[f"{colour}_pad"][:, :2] for colour in PADS], dim=1)


def named(positions: Tensor, index: Tensor) -> Tensor:
    """Return the rows (B, n) of positions (B, m, n) at indices (B,); the first where negative."""
    at = index.clamp(min=0)[:, None, None].expand(-1, 1, positions.shape[-1])
    return positions.gather(1, at).squeeze(1)


def success(scene: Scene, half_m: float) -> Tensor:
    """Return whether each goal is reached, (B,) bool."""
    import torch

    level = scene.cube[:, 2] - half_m
    at_pad = rewards.distance(scene.cube[:, :2], scene.pad) < PUSH_WITHIN_M
    over_pad = rewards.distance(scene.hand[:, :2], scene.pad) < PRESS_WITHIN_M
    reached = [
        rewards.distance(scene.hand, _hover(scene, half_m)) < HOVER_WITHIN_M,
        level >= LIFT_M,
        at_pad & (level < half_m),
        over_pad & (scene.hand[:, 2] < PRESS_BELOW_M),
    ]
    return torch.stack(reached, dim=1).gather(1, scene.skill[:, None]).squeeze(1)


def progress(scene: Scene, half_m: float, opened: float, holding: float) -> dict[str, Tensor]:
    """Return how near the hand is to its object, and how much of the rest is done, in [0, 1].

    Args:
        scene: The scene.
        half_m: Half the edge of a cube.
        opened: Gripper position that counts as open.
        holding: Gripper position at which it holds a cube.
    """
    import torch

    on_pad = torch.cat([scene.pad, torch.zeros_like(scene.pad[:, :1])], dim=-1)
    objects = torch.stack([_hover(scene, half_m), scene.cube, scene.cube, on_pad], dim=1)
    away = rewards.distance(scene.hand, named(objects, scene.skill))
    near = rewards.closeness(away, REACH_SCALE_M)
    grasped = rewards.grasp(near, scene.opening, opened, holding)
    lifted = rewards.progress(scene.cube[:, 2] - half_m, 0.0, LIFT_M)
    apart = rewards.distance(scene.cube[:, :2], scene.pad)
    pushed = rewards.closeness(apart, PUSH_SCALE_M)
    rest = torch.stack([near, (grasped + lifted) / 2, (grasped + pushed) / 2, near], dim=1)
    return {"near": near, "rest": rest.gather(1, scene.skill[:, None]).squeeze(1)}


def _hover(scene: Scene, half_m: float) -> Tensor:
    """Return the place above the cube, (B, 3)."""
    return scene.cube + scene.cube.new_tensor([0.0, 0.0, half_m + HOVER_M])
