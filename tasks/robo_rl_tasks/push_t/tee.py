"""The T of push_t: its boxes, and the points and directions at which a round peg can push it.

Shapes: N boxes, C contacts. Axes of the T: origin at its centre of mass, the bar along x, the stem
towards -y. The unit is the width of bar and stem; both are four long where they cross: bar 4 × 1,
stem 1 × 3, area 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

AREA = 7.0
BOXES = ((0.0, 6 / 7, 2.0, 0.5), (0.0, -8 / 7, 0.5, 1.5))
# Feet of equal load: their mean is the centre of mass.
FEET = ((-1.5, 6 / 7), (1.5, 6 / 7), (0.0, -12 / 7))

_TOP, _STEP, _FOOT = 6 / 7 + 0.5, 6 / 7 - 0.5, -8 / 7 - 1.5
_CORNER = 0.2  # distance of contacts from corners, where a peg would slip off
_SPACING = 2.0


class PushContacts(NamedTuple):
    """Points (C, 2) on the outline and inward normals (C, 2), in axes of the T and in m."""

    point: Tensor
    normal: Tensor


def boxes(unit_m: float) -> Tensor:
    """Return the boxes of the T as rows (x, y, half x, half y), (2, 4), m."""
    import torch

    return torch.tensor(BOXES) * unit_m


def contacts(unit_m: float, peg_radius_m: float) -> PushContacts:
    """Return all contacts at which a peg of radius ``peg_radius_m`` may push.

    In the two inner corners the peg itself needs room.
    """
    import torch

    room = peg_radius_m / unit_m + 0.1
    edges = [
        ((-2 + _CORNER, _TOP), (2 - _CORNER, _TOP), (0.0, -1.0)),
        ((-2.0, _STEP + _CORNER), (-2.0, _TOP - _CORNER), (1.0, 0.0)),
        ((2.0, _STEP + _CORNER), (2.0, _TOP - _CORNER), (-1.0, 0.0)),
        ((-2 + _CORNER, _STEP), (-0.5 - room, _STEP), (0.0, 1.0)),
        ((0.5 + room, _STEP), (2 - _CORNER, _STEP), (0.0, 1.0)),
        ((-0.5, _FOOT + _CORNER), (-0.5, _STEP - room), (1.0, 0.0)),
        ((0.5, _FOOT + _CORNER), (0.5, _STEP - room), (-1.0, 0.0)),
        ((-0.5 + _CORNER, _FOOT), (0.5 - _CORNER, _FOOT), (0.0, 1.0)),
    ]
    points, normals = [], []
    for start, end, normal in edges:
        first, last = torch.tensor(start), torch.tensor(end)
        count = 2 + int((last - first).norm() / _SPACING)
        points.append(first + (last - first) * torch.linspace(0, 1, count).unsqueeze(-1))
        normals.append(torch.tensor(normal).expand(count, 2))
    return PushContacts(torch.cat(points) * unit_m, torch.cat(normals))
