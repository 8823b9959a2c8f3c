"""Rewards as pure functions of distances, heights and gripper positions.

Shapes: B envs; lengths in m. Reward terms lie in [0, 1] and grow towards success.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def distance(pos: Tensor, target: Tensor) -> Tensor:
    """Return the Euclidean distance (B,) between points (B, n)."""
    return (pos - target).norm(dim=-1)


def closeness(dist: Tensor, scale: float) -> Tensor:
    """Return 1 - tanh(dist / scale): 1 at distance 0, 0.24 at the scale, 0 far away."""
    return 1 - (dist / scale).tanh()


def progress(value: Tensor, start: float, end: float) -> Tensor:
    """Return the fraction of the way from start to end, in [0, 1]; end may be the smaller."""
    return ((value - start) / (end - start)).clamp(0, 1)


def grasp(near: Tensor, opening: Tensor, opened: float, closed: float) -> Tensor:
    """Return how far the gripper has closed while it is around the object, in [0, 1].

    Args:
        near: (B,) in [0, 1], how well the object sits between the fingers.
        opening: (B,) measured gripper position.
        opened: Gripper position that counts as open.
        closed: Gripper position that counts as closed on the object.
    """
    return near * progress(opening, opened, closed)


def shaped(parts: Mapping[str, Tensor], weights: Mapping[str, float], bonus: Tensor) -> Tensor:
    """Return the dense reward: the missing part of each term as a cost, plus the bonus.

    The terms are costs because an episode ends at success; positive terms would reward delay.

    Args:
        parts: Name → (B,) in [0, 1].
        weights: Name → weight, the same names.
        bonus: (B,) added without a weight.
    """
    for name, part in parts.items():
        bonus = bonus - weights[name] * (1 - part)
    return bonus
