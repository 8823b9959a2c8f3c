"""The entropy temperature of soft actor-critic, tuned to a target entropy."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core.stateful import Stateful


class Temperature(Stateful):
    """α > 0, learnt as its logarithm.

    Minimises α·(H − H̄) over log α. α rises while the entropy H is below its target H̄ (Haarnoja et
    al. 2018, arXiv 1812.05905, eq. 18; with log α for α as in their code).

    Args:
        start: Initial α.
        lr: Learning rate of log α, by Adam; 0 keeps it.
        target: H̄ in nats.
        device: Where entropies come from.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("log_value", "optim")

    def __init__(
        self, start: float, lr: float, target: float, device: torch.device | str = "cpu"
    ) -> None:
        self.target = target
        self.log = torch.tensor(math.log(start), device=device, requires_grad=True)
        self.optim = torch.optim.Adam([self.log], lr=lr)

    @property
    def value(self) -> Tensor:
        """α, without gradient."""
        return self.log.detach().exp()

    @property
    def log_value(self) -> Tensor:
        """Log α, a copy without gradient."""
        return self.log.detach().clone()

    @log_value.setter
    def log_value(self, log: Tensor) -> None:
        with torch.no_grad():
            self.log.copy_(log)

    def step(self, entropy: Tensor) -> None:
        """One step, after the policy was found to have this entropy (scalar, no gradient).

        One that is not finite pulls nowhere.
        """
        gap = torch.where(entropy.isfinite(), entropy - self.target, 0.0)
        self.optim.zero_grad(set_to_none=True)
        (self.log * gap).backward()
        self.optim.step()
