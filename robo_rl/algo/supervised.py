"""Supervised training of a policy: behaviour cloning, and regression onto a teacher.

Both use ``SupervisedTrainer``: an optimiser with warm-up and cosine decay, and a weight average,
which is the result. They differ only in the loss.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.stateful import Stateful
from robo_rl.optim.ema import Ema
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.policy.base import DenoisingPolicy


class SupervisedTrainer(Stateful):
    """Trains a policy on a supervised loss.

    Args:
        cfg: See Config.
        policy: Trained in place; ``ema.module`` holds the averaged policy.
        steps: Length of the schedule.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("policy", "optimizer", "ema", "done")

    class Config(ConfigModel):
        """Optimiser and weight averaging; ``warmup_steps`` applies to the learning rate."""

        lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate after the warm-up."""
        weight_decay: float = Field(default=1e-6, ge=0.0)
        """Weight decay of AdamW."""
        warmup_steps: int = Field(default=100, ge=0)
        """Gradient steps of the linear learning-rate warm-up."""
        grad_clip: float = Field(default=1.0, gt=0.0)
        """Largest gradient norm."""
        ema_decay: float = Field(default=0.995, ge=0.0, lt=1.0)
        """Decay of the weight average that is evaluated and saved."""

    def __init__(self, cfg: Config, policy: DenoisingPolicy, steps: int) -> None:
        self.cfg, self.policy, self.steps, self.done = cfg, policy, steps, 0
        params = (p for p in policy.parameters() if p.requires_grad)
        self.optimizer = ClippedOptimizer(params, cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.ema = Ema(policy, cfg.ema_decay)

    def step(self, loss: Tensor) -> Tensor:
        """Take one optimiser step on the mean of loss (B,); returns that mean, a scalar."""
        self.optimizer.set_lr(self.cfg.lr * self._schedule())
        mean = loss.mean()
        self.optimizer.step(mean)
        self.ema.update(self.policy)
        self.done += 1
        return mean.detach()

    def _schedule(self) -> float:
        """Learning-rate factor: linear warm-up, then half a cosine to 1 %."""
        if self.done < self.cfg.warmup_steps:
            return (self.done + 1) / self.cfg.warmup_steps
        share = (self.done - self.cfg.warmup_steps) / max(self.steps - self.cfg.warmup_steps, 1)
        return 0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * min(share, 1.0)))


def draw_rows(table: dict[str, Tensor], rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Return ``rows`` rows of name → (N, …), drawn with replacement."""
    pick = draw_pick(len(next(iter(table.values()))), rows, generator)
    return {name: column[pick] for name, column in table.items()}


def draw_pick(size: int, rows: int, generator: torch.Generator) -> Tensor:
    """Return the indices (rows,) of rows of a table with ``size``, drawn with replacement."""
    return torch.randint(size, (rows,), generator=generator, device=generator.device)
