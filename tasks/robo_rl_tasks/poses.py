"""Planar poses on batches of tensors, and random draws of them.

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
