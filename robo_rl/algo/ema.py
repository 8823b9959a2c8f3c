"""Exponential moving average of a module's parameters."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Ema:
    """Keeps averaged weights beside a module.

    The decay grows with the number of updates, min(decay, (1+n)/(10+n)), so that early weights
    are forgotten.

    Args:
        module: What is averaged.
        decay: Its limit.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.module = copy.deepcopy(module).requires_grad_(False)

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Take in the module's present weights."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        torch._foreach_lerp_(list(self.module.parameters()), list(module.parameters()), 1.0 - decay)
