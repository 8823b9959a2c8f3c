"""The quasi-static model of straight pushes of a T.

Shapes: B poses, C contacts, S push lengths. A push of length s along the normal n at point c moves
the T by the twist

    s / (1 + m²/ρ²) · (n, m/ρ²),    m = c × n.

ρ is the ratio of the largest friction moment to the largest friction force (Goyal, Ruina and
Papadopoulos 1991, limit surface as an ellipsoid; the peg is assumed frictionless).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from robo_rl_tasks.poses import rotate_planar, wrap_angle

if TYPE_CHECKING:
    from torch import Tensor


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
