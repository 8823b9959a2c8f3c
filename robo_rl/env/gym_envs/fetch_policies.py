"""Closed-loop policies for the Fetch tasks of Gymnasium-Robotics.

Shapes: B envs. A policy maps observations (B, 28), see ``gym_robotics.OBS_NAMES``, to actions
(B, 4). It is a function of the observation alone, and its actions may exceed [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_STEP_M = 0.05  # displacement of an action of 1
_GAIN = 2.0  # the hand moves by about half of what an action commands
_CLEAR_M = 0.08  # of the hand over the block's centre
_BEHIND_M = 0.08
_ALIGNED_M = 0.02
_WIDTH_M = 0.054  # of the opened fingers; the block has 0.05


def push(state: Tensor) -> Tensor:
    """Push the block to the goal along their line; go around over the block where necessary."""
    hand, block, goal = state[:, :3], state[:, 3:6], state[:, 25:28]
    way = (goal - block)[:, :2]
    line = way / way.norm(dim=1, keepdim=True).clamp(min=1e-6)
    offset = (hand - block)[:, :2]
    along = (offset * line).sum(1, keepdim=True)
    side = offset - along * line
    start = block[:, :2] - _BEHIND_M * line

    low = hand[:, 2:] < block[:, 2:] + _CLEAR_M / 2
    behind = (along < -_ALIGNED_M) & (side.norm(dim=1, keepdim=True) < 1.5 * _ALIGNED_M)
    over_start = _near(hand[:, :2], start)
    pushes = low & behind
    descends = over_start & ~pushes
    rises = low & ~pushes & ~descends

    xy = torch.where(pushes, way - 2.0 * side, start - hand[:, :2])
    xy = torch.where(rises, 0.0, xy)
    height = torch.where(pushes | descends, block[:, 2:], block[:, 2:] + _CLEAR_M)
    return _act(torch.cat([xy, height - hand[:, 2:]], 1), torch.zeros_like(along))


def pick_and_place(state: Tensor) -> Tensor:
    """Open the gripper over the block, descend, close, and carry the block to the goal."""
    hand, block, goal = state[:, :3], state[:, 3:6], state[:, 25:28]
    width = state[:, 9:11].sum(1, keepdim=True)
    above = _near(hand[:, :2], block[:, :2])
    around = above & ((hand - block)[:, 2:].abs() < _ALIGNED_M / 2)
    holds = around & (width < _WIDTH_M)

    over = block + torch.tensor([0.0, 0.0, _CLEAR_M])
    target = torch.where(holds, hand + goal - block, torch.where(above, block, over))
    return _act(target - hand, torch.where(around, -1.0, 1.0))


POLICIES: dict[str, Callable[[Tensor], Tensor]] = {
    "FetchPush-v4": push,
    "FetchPickAndPlace-v4": pick_and_place,
}
"""Gymnasium id → policy."""


def _near(hand: Tensor, target: Tensor) -> Tensor:
    return (hand - target).norm(dim=1, keepdim=True) < _ALIGNED_M


def _act(way: Tensor, gripper: Tensor) -> Tensor:
    """Return the action that moves the hand by way (B, 3) in m."""
    return torch.cat([way * (_GAIN / _STEP_M), gripper], 1)
