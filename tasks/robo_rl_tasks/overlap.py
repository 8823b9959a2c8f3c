"""The exact overlap of rectangles in the plane, batched.

Shapes: … any batch axes, N boxes, 4 corners in counter-clockwise order, 2 coordinates. Two convex
polygons meet in a convex polygon, whose corners are corners of the one inside the other or
crossings of edges; sorted by angle about their mean they give the area by the shoelace formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl_tasks.poses import rotate_planar

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCE_M = 1e-9  # corners on an edge count as inside; a sliver this thin changes no area


def place(boxes: Tensor, pose: Tensor) -> Tensor:
    """Corners (…, N, 4, 2) of boxes (N, 4) = (x, y, half x, half y) carried by pose (…, 3)."""
    import torch

    signs = torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=pose.dtype, device=pose.device)
    corners = boxes[:, None, :2] + signs * boxes[:, None, 2:]
    yaw = pose[..., 2, None, None]
    return rotate_planar(yaw, corners) + pose[..., None, None, :2]


def overlap_area(first: Tensor, second: Tensor) -> Tensor:
    """Area (…,) common to the convex quadrilaterals first and second, each (…, 4, 2)."""
    import torch

    crossings, crossed = _crossings(first, second)
    points = torch.cat([first, second, crossings], dim=-2)
    valid = torch.cat([_inside(first, second), _inside(second, first), crossed], dim=-1)
    return _area_of_hull(points, valid)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _inside(points: Tensor, polygon: Tensor) -> Tensor:
    """(…, 4) bool: which points (…, 4, 2) lie left of all edges of the polygon (…, 4, 2)."""
    edges = polygon.roll(-1, dims=-2) - polygon
    to_points = points[..., :, None, :] - polygon[..., None, :, :]
    return (_cross(edges[..., None, :, :], to_points) >= -TOLERANCE_M).all(dim=-1)


def _crossings(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Where edges of the one cross edges of the other (…, 16, 2), and whether (…, 16)."""
    start_a, start_b = first[..., :, None, :], second[..., None, :, :]
    edge_a = first.roll(-1, dims=-2)[..., :, None, :] - start_a
    edge_b = second.roll(-1, dims=-2)[..., None, :, :] - start_b
    denominator = _cross(edge_a, edge_b)
    parallel = denominator.abs() < TOLERANCE_M * 1e-3
    denominator = denominator.masked_fill(parallel, 1.0)
    along_a = _cross(start_b - start_a, edge_b) / denominator
    along_b = _cross(start_b - start_a, edge_a) / denominator
    exists = (along_a >= 0) & (along_a <= 1) & (along_b >= 0) & (along_b <= 1) & ~parallel
    points = start_a + along_a.unsqueeze(-1) * edge_a
    return points.flatten(-3, -2), exists.flatten(-2)


def _area_of_hull(points: Tensor, valid: Tensor) -> Tensor:
    """Area (…,) of the convex polygon whose corners are the valid (…, P) among points (…, P, 2)."""
    import torch

    # An invalid point becomes a copy of a valid one, which adds nothing to the area.
    index = valid.to(torch.uint8).argmax(dim=-1, keepdim=True).unsqueeze(-1)
    stand_in = points.gather(-2, index.expand(*index.shape[:-1], 2))
    points = torch.where(valid.unsqueeze(-1), points, stand_in)
    count = valid.sum(dim=-1).clamp(min=1)
    centre = (points * valid.unsqueeze(-1)).sum(dim=-2) / count.unsqueeze(-1)
    spokes = points - centre.unsqueeze(-2)
    order = torch.atan2(spokes[..., 1], spokes[..., 0]).argsort(dim=-1, stable=True)
    spokes = spokes.gather(-2, order.unsqueeze(-1).expand_as(spokes))
    area = _cross(spokes, spokes.roll(-1, dims=-2)).sum(dim=-1) / 2
    return torch.where(valid.any(dim=-1), area, torch.zeros_like(area))
