"""The exact overlap of shapes made of rectangles, batched.

Shapes: … any batch axes, N boxes of a shape, 4 corners in counter-clockwise order. A box is a row
(x, y, half x, half y) in the axes of its shape; a pose is (x, y, yaw).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl_tasks.poses import rotate_planar

if TYPE_CHECKING:
    from torch import Tensor

_LEVEL_M = 1e-7  # an edge that rises by less counts as level; in float64 no digit of note is lost


def overlap_area(boxes: Tensor, pose: Tensor, target: Tensor) -> Tensor:
    """Area (…,) that a shape at a pose shares with itself at another one.

    Args:
        boxes: (N, 4), which do not overlap each other.
        pose: (…, 3) where the shape is.
        target: (…, 3) where it should be.
    """
    boxes, pose, target = boxes.to(pose.device).double(), pose.double(), target.double()
    corners = box_corners(boxes, relative_pose(pose, target)).unsqueeze(-3)
    return area_within(corners - boxes[:, None, :2], boxes[:, 2:]).sum(dim=(-1, -2))


def relative_pose(pose: Tensor, target: Tensor) -> Tensor:
    """The pose (…, 3) in the axes of the target (…, 3)."""
    import torch

    shift = rotate_planar(-target[..., 2], pose[..., :2] - target[..., :2])
    return torch.cat([shift, (pose - target)[..., 2:]], dim=-1)


def box_corners(boxes: Tensor, pose: Tensor) -> Tensor:
    """Corners (…, N, 4, 2) of boxes (N, 4) that are carried along by pose (…, 3)."""
    import torch

    signs = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=pose.dtype, device=pose.device)
    corners = boxes[:, None, :2] + signs * boxes[:, None, 2:]
    return rotate_planar(pose[..., 2, None, None], corners) + pose[..., None, None, :2]


def area_within(corners: Tensor, half: Tensor) -> Tensor:
    """Area (…,) of convex polygons (…, 4, 2) inside boxes of half sizes (…, 2) about the origin.

    The area under an edge, cut off at the box, is the integral of clamp(y, -h, h) over the part of
    its x that lies in the box; going round the polygon the areas add up to minus the overlap.
    """
    width, height = half[..., None, 0], half[..., None, 1]
    ends = corners.roll(-1, dims=-2)
    (x0, y0), (x1, y1) = corners.unbind(-1), ends.unbind(-1)
    slope = (y1 - y0) / (x1 - x0).masked_fill(x1 == x0, 1.0)
    left, right = x0.clamp(-width, width), x1.clamp(-width, width)
    low, high = y0 + slope * (left - x0), y0 + slope * (right - x0)
    return -((right - left) * _mean_clamped(low, high, height)).sum(dim=-1)


def _mean_clamped(start: Tensor, end: Tensor, limit: Tensor) -> Tensor:
    """Mean of clamp(y, -limit, limit) while y goes evenly from start to end."""
    import torch

    def integral(y: Tensor) -> Tensor:
        inside = y.clamp(-limit, limit)
        return inside * inside / 2 + (y.abs() - inside.abs()) * limit

    rise = end - start
    level = rise.abs() < _LEVEL_M
    mean = (integral(end) - integral(start)) / rise.masked_fill(level, 1.0)
    return torch.where(level, ((start + end) / 2).clamp(-limit, limit), mean)
