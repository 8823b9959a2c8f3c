"""Overlap of rectangles, by hand and by counting points."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl_tasks.overlap import overlap_area, place

SQUARE = torch.tensor([[0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)


def _square(x: float, y: float, yaw: float) -> torch.Tensor:
    return place(SQUARE, torch.tensor([x, y, yaw], dtype=torch.float64))


@pytest.mark.parametrize(
    ("x", "y", "yaw", "area"),
    [
        (0.0, 0.0, 0.0, 4.0),
        (1.0, 0.0, 0.0, 2.0),
        (1.5, 1.5, 0.0, 0.25),
        (2.0, 0.0, 0.0, 0.0),  # they touch
        (5.0, 0.0, 0.3, 0.0),
        (0.0, 0.0, math.pi / 2, 4.0),
        # The regular octagon of inradius 1.
        (0.0, 0.0, math.pi / 4, 8 * (math.sqrt(2) - 1)),
        # A corner at distance sqrt(2) from its centre reaches 1 into the square: a triangle.
        (math.sqrt(2), 0.0, math.pi / 4, 1.0),
    ],
)
def test_squares_of_side_two(x, y, yaw, area):
    first, second = _square(0, 0, 0), _square(x, y, yaw)
    assert overlap_area(first, second).item() == pytest.approx(area, abs=1e-9)
    assert overlap_area(second, first).item() == pytest.approx(area, abs=1e-9)


def test_a_box_inside_another():
    small = place(torch.tensor([[0.0, 0.0, 0.2, 0.1]]), torch.tensor([0.1, 0.2, 0.7]))
    assert overlap_area(small, _square(0, 0, 0).float()).item() == pytest.approx(0.08, abs=1e-6)


def test_place_turns_then_moves():
    corners = place(torch.tensor([[1.0, 0.0, 0.5, 0.5]]), torch.tensor([2.0, 3.0, math.pi / 2]))
    # The box about (1, 0) lands about (2, 4).
    assert corners.mean(dim=-2)[0].tolist() == pytest.approx([2.0, 4.0], abs=1e-6)


def test_agrees_with_counting_points(generator):
    boxes = torch.rand(10, 4, generator=generator, dtype=torch.float64) * 0.8 + 0.2
    poses = torch.rand(2, 10, 3, generator=generator, dtype=torch.float64) * 2 - 1
    shapes = [place(boxes[i : i + 1], poses[:, i]) for i in range(10)]
    exact = torch.stack([overlap_area(shape[0, 0], shape[1, 0]) for shape in shapes])
    axis = torch.linspace(-3, 3, 301, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).flatten(0, 1)
    counted = torch.stack(
        [(_within(points, s[0, 0]) & _within(points, s[1, 0])).sum() * 4e-4 for s in shapes]
    )
    assert torch.allclose(exact, counted.to(exact), atol=0.03)


def _within(points: torch.Tensor, corners: torch.Tensor) -> torch.Tensor:
    """By projection on two edges, unlike the code under test."""
    u, v = corners[1] - corners[0], corners[3] - corners[0]
    along, across = (points - corners[0]) @ u / (u @ u), (points - corners[0]) @ v / (v @ v)
    return (along >= 0) & (along <= 1) & (across >= 0) & (across <= 1)
