"""Exponential moving average of a module's parameters."""

from __future__ import annotations

import copy

from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


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

    def update(self, module: nn.Module) -> None:
        """Take in the module's present weights."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        average = get_ema_multi_avg_fn(decay)
        average(list(self.module.parameters()), list(module.parameters()), self.updates)
