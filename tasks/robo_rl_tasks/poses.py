"""Rotations and planar poses on batches of tensors.

Shapes: … any batch axes. Quaternions are wxyz and of unit length; yaw is the angle about the
world's z axis in rad; a planar pose is (x, y, yaw).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def wrap_angle(angle: Tensor, period: float = 2 * math.pi) -> Tensor:
    """The representative of an angle in [-period/2, period/2)."""
    return (angle + period / 2) % period - period / 2


def yaw_to_quat(yaw: Tensor) -> Tensor:
    """Yaw (…,) to the quaternion (…, 4) of a turn about z."""
    import torch

    zero = torch.zeros_like(yaw)
    return torch.stack([torch.cos(yaw / 2), zero, zero, torch.sin(yaw / 2)], dim=-1)


def quat_to_yaw(quat: Tensor) -> Tensor:
    """The yaw (…,) of the body's x axis, out of its quaternion (…, 4)."""
    import torch

    w, x, y, z = quat.unbind(-1)
    return torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def quat_to_rot6d(quat: Tensor) -> Tensor:
    """The first two columns of the rotation matrix, (…, 6): continuous, and the same for q and -q.

    Source: Zhou et al., "On the Continuity of Rotation Representations in Neural Networks", eq. 17.
    """
    import torch

    w, x, y, z = quat.unbind(-1)
    first = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
    second = [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)]
    return torch.stack(first + second, dim=-1)


def rotate_planar(yaw: Tensor, point: Tensor) -> Tensor:
    """Turn points (…, 2) by yaw (…,)."""
    import torch

    cos, sin = torch.cos(yaw), torch.sin(yaw)
    x, y = point.unbind(-1)
    return torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1)


def planar_pose(pos: Tensor, quat: Tensor) -> Tensor:
    """The planar pose (…, 3) of a position (…, 3) and a quaternion (…, 4)."""
    import torch

    return torch.cat([pos[..., :2], quat_to_yaw(quat).unsqueeze(-1)], dim=-1)


def uniform(low: Tensor, high: Tensor, num: int, generator: torch.Generator) -> Tensor:
    """Draw (num, n), each element uniform between low (n,) and high (n,)."""
    import torch

    draws = torch.rand(num, low.shape[-1], generator=generator)
    return low + (high - low) * draws
