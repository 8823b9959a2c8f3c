"""Jerk of the executed actions, across chunk borders.

Shapes: B envs, E actions of a chunk that may be executed, A act_dim.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core.spec import ActSpec
from robo_rl.core.stateful import Stateful


class Jerk(Stateful):
    """Mean |third difference of actions| / dt³, in action units per s³.

    The mean runs over the elements of the action. Actions are clamped to their limits, as the env
    executes them. Differences span chunk borders but not episodes. Checkpoints are taken between
    rollouts, so the running sums are not part of the state.

    Args:
        act_spec: Spec of one step's action.
        dt_s: Time between two actions.
        num_envs: B.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("last", "known")

    def __init__(self, act_spec: ActSpec, dt_s: float, num_envs: int) -> None:
        self.low = torch.tensor(act_spec.low or [-math.inf])
        self.high = torch.tensor(act_spec.high or [math.inf])
        self.dt_s = dt_s
        self.last = torch.zeros(num_envs, 3, act_spec.size)
        self.known = torch.zeros(num_envs, dtype=torch.int64)
        self.total, self.count = 0.0, 0

    def update(self, act: Tensor, num_exec: Tensor, over: Tensor) -> None:
        """Add one decision of every env.

        Args:
            act: (B, E, A), physical units.
            num_exec: (B,), number of executed actions; E where the episode continues.
            over: (B,) bool, whether the episode ended.
        """
        act = torch.cat([self.last, act.cpu().clamp(self.low, self.high)], dim=1)
        third = act.diff(n=3, dim=1).abs().mean(dim=-1)
        step = torch.arange(third.shape[1])
        counts = (step >= 3 - self.known[:, None]) & (step < num_exec.cpu()[:, None])
        self.total += float(third[counts].double().sum())
        self.count += int(counts.sum())
        self.last = act[:, -3:]
        self.known = torch.where(over.cpu(), 0, (self.known + num_exec.cpu()).clamp(max=3))

    def pop_mean(self) -> float:
        """Return the mean since the last call, then reset; NaN without 4 consecutive actions."""
        mean = self.total / self.count / self.dt_s**3 if self.count else math.nan
        self.total, self.count = 0.0, 0
        return mean

    def reset(self) -> None:
        """Start new episodes in all envs."""
        self.known = torch.zeros_like(self.known)
