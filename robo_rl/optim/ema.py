"""Averages of a module's weights over training."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from robo_rl.core.stateful import Stateful

_Module = TypeVar("_Module", bound=nn.Module)


class Ema(Stateful, Generic[_Module]):
    """Exponential moving average of a module's weights.

    The decay grows with the number of updates, min(decay, (1+n)/(10+n)), so that early weights
    decay fast. Submodules without weights, such as normalisers, are shared with the module.

    Args:
        module: The averaged module.
        decay: Largest decay.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("module", "updates")

    def __init__(self, module: _Module, decay: float) -> None:
        self.decay = decay
        self._count = torch.zeros((), dtype=torch.int64)  # a tensor, so rollbacks restore it
        self.module: _Module = copy.deepcopy(module, parameterless_modules(module)).requires_grad_(
            False
        )

    @property
    def updates(self) -> int:
        """Number of updates."""
        return int(self._count)

    @updates.setter
    def updates(self, number: int) -> None:
        self._count.fill_(number)

    @property
    def mutable_tensors(self) -> list[Tensor]:
        """Tensors that an update changes."""
        return [*self.module.parameters(), self._count]

    def update(self, module: nn.Module) -> None:
        """Add the module's current weights to the average."""
        self._count += 1
        average = get_ema_multi_avg_fn(self._decay())
        average(list(self.module.parameters()), list(module.parameters()), self.updates)

    def _decay(self) -> float:
        return min(self.decay, (1 + self.updates) / (10 + self.updates))


def parameterless_modules(module: nn.Module) -> dict[int, Any]:
    """Return submodules without weights by id, as a ``deepcopy`` memo that shares them."""
    return {id(part): part for part in module.modules() if not any(True for _ in part.parameters())}


class TargetNetwork(Ema[_Module]):
    """An average with constant decay, as for target networks.

    θ' ← decay·θ' + (1 − decay)·θ (Lillicrap et al. 2015, arXiv 1509.02971, algorithm 1, τ = 1 −
    decay).
    """

    def _decay(self) -> float:
        return self.decay


class Ewma(Ema[_Module]):
    """The average Σ_s β^(n−s)·θ_s / Σ_s β^(n−s) of all weights, with the initial ones.

    This is the proximal policy of PPO-EWMA (Hilton et al. 2022, arXiv 2110.00641). Its centre of
    mass is 1/(1−β) − 1 steps back.
    """

    def _decay(self) -> float:
        total = (1.0 - self.decay ** (self.updates + 1)) / (1.0 - self.decay)
        return 1.0 - 1.0 / total
