"""Overlap of shapes made of rectangles, by hand and by counting points."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl_tasks.push_t.overlap import area_within, box_corners, overlap_area

SQUARE = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
ORIGIN = torch.zeros(3)


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
        # A corner that reaches 1 into the square: a right triangle of height 1.
        (math.sqrt(2), 0.0, math.pi / 4, 1.0),
    ],
)
def test_squares_of_side_two(x, y, yaw, area):
    pose = torch.tensor([x, y, yaw])
    assert overlap_area(SQUARE, pose, ORIGIN).item() == pytest.approx(area, abs=1e-6)
    assert overlap_area(SQUARE, ORIGIN, pose).item() == pytest.approx(area, abs=1e-6)


def test_a_box_inside_another():
    small = box_corners(torch.tensor([[0.0, 0.0, 0.2, 0.1]]), torch.tensor([0.1, 0.2, 0.7]))
    assert area_within(small, torch.tensor([1.0, 1.0])).item() == pytest.approx(0.08, abs=1e-6)


def test_two_boxes_add_up():
    # An L of three unit squares, moved by one to the right: one square of it lands on another.
    ell = torch.tensor([[0.0, 0.5, 0.5, 1.0], [1.0, 0.0, 0.5, 0.5]])
    shifted = torch.tensor([1.0, 0.0, 0.0])
    assert overlap_area(ell, ORIGIN, ORIGIN).item() == pytest.approx(3.0)
    assert overlap_area(ell, shifted, ORIGIN).item() == pytest.approx(1.0)


def test_place_turns_then_moves():
    corners = box_corners(
        torch.tensor([[1.0, 0.0, 0.5, 0.5]]), torch.tensor([2.0, 3.0, math.pi / 2])
    )
    # The box about (1, 0) lands about (2, 4).
    assert corners.mean(dim=-2)[0].tolist() == pytest.approx([2.0, 4.0], abs=1e-6)


def test_does_not_depend_on_where_the_world_has_its_origin(generator):
    pose, target = torch.rand(2, 30, 3, generator=generator)
    shift = torch.tensor([3.0, -2.0, 0.0])
    area = overlap_area(SQUARE, pose, target)
    assert torch.allclose(overlap_area(SQUARE, pose + shift, target + shift), area, atol=1e-5)


def test_agrees_with_counting_points(generator):
    boxes = torch.rand(10, 4, generator=generator) * 0.8 + 0.2
    poses = torch.rand(2, 10, 3, generator=generator) * 2 - 1
    axis = torch.linspace(-3, 3, 301)
    points = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).flatten(0, 1)
    for box, pose, target in zip(boxes, poses[0], poses[1], strict=True):
        both = _within(points, box_corners(box[None], pose)[0])
        both &= _within(points, box_corners(box[None], target)[0])
        exact = overlap_area(box[None], pose, target).item()
        assert exact == pytest.approx(both.sum().item() * 4e-4, abs=0.03)


def _within(points: torch.Tensor, corners: torch.Tensor) -> torch.Tensor:
    """By projection on two edges, unlike the code under test."""
    u, v = corners[1] - corners[0], corners[3] - corners[0]
    along, across = (points - corners[0]) @ u / (u @ u), (points - corners[0]) @ v / (v @ v)
    return (along >= 0) & (along <= 1) & (across >= 0) & (across <= 1)
