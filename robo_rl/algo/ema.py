"""Exponential moving average of a module's parameters."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

from torch import nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

_Module = TypeVar("_Module", bound=nn.Module)


class Ema(Generic[_Module]):
    """Keeps averaged weights beside a module.

    The decay grows with the number of updates, min(decay, (1+n)/(10+n)), so that early weights
    are forgotten.

    Args:
        module: What is averaged.
        decay: Its limit.
    """

    def __init__(self, module: _Module, decay: float) -> None:
        self.decay, self.updates = decay, 0
        self.module: _Module = copy.deepcopy(module).requires_grad_(False)

    def update(self, module: nn.Module) -> None:
        """Take in the module's present weights."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        average = get_ema_multi_avg_fn(decay)
        average(list(self.module.parameters()), list(module.parameters()), self.updates)
