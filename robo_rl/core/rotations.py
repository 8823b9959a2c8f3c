"""Rotations on batches of tensors: quaternions, rotation vectors and matrices.

Shapes: … any batch axes. Quaternions are wxyz and of unit length.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def quat_mul(left: Tensor, right: Tensor) -> Tensor:
    """The Hamilton product of quaternions (…, 4): first turn by right, then by left."""
    import torch

    a, b, c, d = left.unbind(-1)
    e, f, g, h = right.unbind(-1)
    parts = [
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    ]
    return torch.stack(parts, dim=-1)


def rotvec_to_quat(turn: Tensor) -> Tensor:
    """The quaternion (…, 4) of a rotation vector (…, 3), rad."""
    import torch

    half = turn.norm(dim=-1, keepdim=True) / 2
    # sin(x) / x without a division by 0: torch.sinc(x) is sin(pi x) / (pi x).
    return torch.cat([torch.cos(half), turn / 2 * torch.sinc(half / math.pi)], dim=-1)


def quat_to_rotvec(quat: Tensor) -> Tensor:
    """The rotation vector (…, 3), rad, of at most half a turn, of a unit quaternion (…, 4)."""
    import torch

    quat = torch.where(quat[..., :1] < 0, -quat, quat)
    sine = quat[..., 1:].norm(dim=-1, keepdim=True)
    angle = 2 * torch.atan2(sine, quat[..., :1])
    return quat[..., 1:] * torch.where(sine > 1e-9, angle / sine.clamp(min=1e-9), 2.0)


def quat_to_matrix(quat: Tensor) -> Tensor:
    """The rotation matrix (…, 3, 3) of a unit quaternion (…, 4)."""
    import torch

    w, x, y, z = quat.unbind(-1)
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
    ]
    return torch.stack(rows, dim=-2)


def matrix_to_rotvec(rot: Tensor) -> Tensor:
    """The rotation vector (…, 3), rad, of a rotation matrix (…, 3, 3) of less than half a turn."""
    import torch

    skew = (rot - rot.mT) / 2
    axis = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], dim=-1)
    sine = axis.norm(dim=-1, keepdim=True)
    cosine = (rot.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True) - 1) / 2
    return axis * torch.where(sine > 1e-6, torch.atan2(sine, cosine) / sine.clamp(min=1e-6), 1.0)


def quat_conj(quat: Tensor) -> Tensor:
    """The inverse turn of unit quaternions (…, 4)."""
    return quat * quat.new_tensor([1.0, -1.0, -1.0, -1.0])
