"""The exact overlap of shapes made of rectangles, batched.

Shapes: … any batch axes, N boxes of a shape, 4 corners in counter-clockwise order. A box is a row
(x, y, half x, half y) in the axes of its shape; a pose is (x, y, yaw).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl_tasks.poses import rotate_planar

if TYPE_CHECKING:
    from torch import Tensor

_LEVEL_M = 1e-7  # a smaller rise counts as level; negligible error in float64


def overlap_area(boxes: Tensor, pose: Tensor, target: Tensor) -> Tensor:
    """Return the area (…,) of the intersection of a shape at two poses.

    Args:
        boxes: (N, 4), which do not overlap each other.
        pose: (…, 3) current pose of the shape.
        target: (…, 3) target pose of the shape.
    """
    boxes, pose, target = boxes.to(pose.device).double(), pose.double(), target.double()
    corners = box_corners(boxes, relative_pose(pose, target)).unsqueeze(-3)
    return area_within(corners - boxes[:, None, :2], boxes[:, 2:]).sum(dim=(-1, -2))


def relative_pose(pose: Tensor, target: Tensor) -> Tensor:
    """Return the pose (…, 3) in the axes of the target (…, 3)."""
    import torch

    shift = rotate_planar(-target[..., 2], pose[..., :2] - target[..., :2])
    return torch.cat([shift, (pose - target)[..., 2:]], dim=-1)


def box_corners(boxes: Tensor, pose: Tensor) -> Tensor:
    """Return the corners (…, N, 4, 2) of boxes (N, 4) at pose (…, 3)."""
    import torch

    x, y = boxes[:, 2:].unbind(-1)
    offsets = torch.stack([torch.stack([-x, x, x, -x], -1), torch.stack([-y, -y, y, y], -1)], -1)
    corners = boxes[:, None, :2] + offsets
    return rotate_planar(pose[..., 2, None, None], corners) + pose[..., None, None, :2]


def area_within(corners: Tensor, half: Tensor) -> Tensor:
    """Return the area (…,) of convex polygons (…, 4, 2) within boxes (…, 2) about the origin.

    ``half`` holds the half sizes of the boxes. The area under an edge is the integral of
    clamp(y, -h, h) over the part of its x range within the box. The sum over all edges is minus
    the overlap.
    """
    width, height = half[..., None, 0], half[..., None, 1]
    ends = corners.roll(-1, dims=-2)
    (x0, y0), (x1, y1) = corners.unbind(-1), ends.unbind(-1)
    slope = (y1 - y0) / (x1 - x0).masked_fill(x1 == x0, 1.0)
    left, right = x0.clamp(-width, width), x1.clamp(-width, width)
    low, high = y0 + slope * (left - x0), y0 + slope * (right - x0)
    return -((right - left) * _mean_clamped(low, high, height)).sum(dim=-1)


def _mean_clamped(start: Tensor, end: Tensor, limit: Tensor) -> Tensor:
    """Return the mean of clamp(y, -limit, limit) as y goes linearly from start to end."""
    import torch

    def integral(y: Tensor) -> Tensor:
        inside = y.clamp(-limit, limit)
        return inside * inside / 2 + (y.abs() - inside.abs()) * limit

    rise = end - start
    level = rise.abs() < _LEVEL_M
    mean = (integral(end) - integral(start)) / rise.masked_fill(level, 1.0)
    return torch.where(level, ((start + end) / 2).clamp(-limit, limit), mean)
