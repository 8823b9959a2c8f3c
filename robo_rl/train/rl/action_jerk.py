"""Jerk of the executed actions, across chunk borders.

Shapes: B envs, E actions of a chunk that may be executed, A act_dim.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
        device: Where the env's tensors are.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("last", "known")

    def __init__(
        self, act_spec: ActSpec, dt_s: float, num_envs: int, device: torch.device | str = "cpu"
    ) -> None:
        self.device = torch.device(device)
        self.low = torch.tensor(act_spec.low or [-math.inf], device=device)
        self.high = torch.tensor(act_spec.high or [math.inf], device=device)
        self.dt_s = dt_s
        self.last = torch.zeros(num_envs, 3, act_spec.size, device=device)
        self.known = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._third, self._counts = list[Tensor](), list[Tensor]()

    def update(self, act: Tensor, num_exec: Tensor, over: Tensor) -> None:
        """Add one decision of every env.

        Args:
            act: (B, E, A), physical units.
            num_exec: (B,), number of executed actions; E where the episode continues.
            over: (B,) bool, whether the episode ended.
        """
        act = torch.cat([self.last, act.clamp(self.low, self.high)], dim=1)
        third = act.diff(n=3, dim=1).abs().mean(dim=-1)
        step = torch.arange(third.shape[1], device=third.device)
        counts = (step >= 3 - self.known[:, None]) & (step < num_exec[:, None])
        self._third.append(third)
        self._counts.append(counts)
        self.last = act[:, -3:]
        self.known = torch.where(over, 0, (self.known + num_exec).clamp(max=3))

    @property
    def count(self) -> int:
        """How many differences there are since they were last taken."""
        return sum(int(counts.sum()) for counts in self._counts)

    def pop_mean(self) -> float:
        """Return the mean since the last call, then reset; NaN without 4 consecutive actions."""
        total, count = 0.0, 0
        for third, counts in self._taken():
            total += float(third[counts].double().sum())
            count += int(counts.sum())
        return total / count / self.dt_s**3 if count else math.nan

    def _taken(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Third differences (B, E) and which of them count, decision by decision, on the host."""
        if self._third:
            sizes = [third.shape[1] for third in self._third]
            found = (torch.cat(each, dim=1).cpu() for each in (self._third, self._counts))
            thirds, counts = (each.split(sizes, dim=1) for each in found)
            self._third, self._counts = [], []
            yield from zip(thirds, counts, strict=True)

    def reset(self) -> None:
        """Start new episodes in all envs."""
        self.known = torch.zeros_like(self.known)

    def _loaded(self) -> None:
        self.last, self.known = self.last.to(self.device), self.known.to(self.device)
