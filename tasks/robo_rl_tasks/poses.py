"""Planar poses and points on batches of tensors, and random draws of them.

Shapes: … any batch axes. Yaw is the angle about the world's z axis in rad; a planar pose is
(x, y, yaw), in m and rad.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from robo_rl import quat_to_yaw

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def wrap_angle(angle: Tensor, period: float | Tensor = 2 * math.pi) -> Tensor:
    """Return the equivalent angle in [-period/2, period/2)."""
    return (angle + period / 2) % period - period / 2


def rotate_planar(yaw: Tensor, point: Tensor) -> Tensor:
    """Rotate points (…, 2) by yaw (…,)."""
    import torch

    cos, sin = torch.cos(yaw), torch.sin(yaw)
    x, y = point.unbind(-1)
    return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1)


def planar_pose(pos: Tensor, quat: Tensor) -> Tensor:
    """Return the planar pose (…, 3) of a position (…, 3) and a quaternion (…, 4)."""
    import torch

    return torch.cat([pos[..., :2], quat_to_yaw(quat).unsqueeze(-1)], dim=-1)


def uniform(low: Tensor, high: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Draw (num, n), each element uniform between low (n,) and high (n,)."""
    import torch

    draws = torch.rand(num, low.shape[-1], generator=generator)
    return low + (high - low) * draws


def away_from(point: Tensor, centre: Tensor, distance: float, low: Tensor, high: Tensor) -> Tensor:
    """Return points (B, n) of a box that are ``distance`` or more from centres (B, n).

    A point that is nearer moves away along its direction. If it would leave the box, it moves
    towards the corner that is farthest from the centre. If that corner is nearer too, it moves to
    the corner.

    Args:
        point: Points in the box.
        centre: What they keep away from.
        distance: Smallest distance.
        low: (n,) lower corner of the box.
        high: (n,) upper corner of the box.
    """
    import torch

    corner = torch.where(centre < (low + high) / 2, high, low)
    offset, ahead = point - centre, corner - point
    apart = offset.norm(dim=-1, keepdim=True)
    direction = torch.where(apart > 0, offset / apart, ahead / ahead.norm(dim=-1, keepdim=True))
    along = centre + distance * direction
    inside = ((along >= low) & (along <= high)).all(dim=-1, keepdim=True)
    # |offset + t·ahead| = distance has one root t in [0, 1] if the corner is far enough.
    a, b, c = (
        (one * other).sum(dim=-1, keepdim=True)
        for one, other in ((ahead, ahead), (offset, ahead), (offset, offset))
    )
    root = (b**2 - a * (c - distance**2)).clamp(min=0.0).sqrt()
    moved = torch.where(inside, along, point + (root - b) / a * ahead)
    is_small = (corner - centre).norm(dim=-1, keepdim=True) < distance
    return torch.where(apart >= distance, point, torch.where(is_small, corner, moved))
