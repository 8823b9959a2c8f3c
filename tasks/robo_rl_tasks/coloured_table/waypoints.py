"""Where the demonstrator's hand goes in each phase of each skill.

Shapes: B envs. Lengths in m.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from robo_rl import ConfigModel
from robo_rl_tasks.coloured_table import skills

if TYPE_CHECKING:
    from torch import Tensor

ABOVE, DOWN, CLOSE, REST = range(4)
"""Phases: to above the object, down to it, to close the fingers, and to lift or to push."""


class Sizes(ConfigModel):
    """Heights of the waypoints.

    Args:
        travel_m: Height at which the hand travels.
        lift_m: Height to which it lifts a cube.
        press_m: Height to which it presses.
    """

    travel_m: float = Field(default=0.12, gt=0)
    lift_m: float = Field(default=0.12, gt=0)
    press_m: float = Field(default=0.005, gt=0)


class Seen(NamedTuple):
    """What the demonstrator sees.

    Args:
        skill: (B,) int64, index of the skill.
        cube: (B, 3), x, y and yaw of the named cube.
        pad: (B, 2), the named pad.
    """

    skill: Tensor
    cube: Tensor
    pad: Tensor


def waypoint(seen: Seen, phase: Tensor, hand_xy: Tensor, sizes: Sizes, half_m: float) -> Tensor:
    """Return where the hand goes, (B, 3).

    Args:
        seen: What is seen.
        phase: (B,) int64.
        hand_xy: (B, 2), where the set point of the hand is.
        sizes: Heights.
        half_m: Half the edge of a cube.
    """
    import torch

    cube, pad = seen.cube[:, :2], seen.pad
    hover = 2 * half_m + skills.HOVER_M
    travel, low, high = sizes.travel_m, half_m, sizes.lift_m
    around = [_at(cube, travel), _at(cube, low), _at(hand_xy, low)]
    plans = [
        [_at(cube, hover)] * 4,
        [*around, _at(hand_xy, high)],
        [*around, _at(pad, low)],
        [_at(pad, travel)] + [_at(pad, sizes.press_m)] * 3,
    ]
    of_skill = torch.stack([torch.stack(plan, dim=1) for plan in plans], dim=1)
    rows = torch.arange(len(phase))
    return of_skill[rows, seen.skill, phase]


def _at(place: Tensor, height_m: float) -> Tensor:
    """Return the points (B, 3) above places (B, 2) of the table."""
    from torch.nn import functional as F

    return F.pad(place, (0, 1), value=height_m)
