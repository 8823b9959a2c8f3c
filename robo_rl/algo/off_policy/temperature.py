"""The price of certainty in soft actor-critic, tuned so that entropy stays at its target."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class Temperature:
    """α > 0, learnt as its logarithm.

    Minimises α·(H − H̄) over log α: it rises while the entropy H is below its target H̄ (Haarnoja
    et al. 2018, arXiv 1812.05905, eq. 18; with log α for α as their code has it).

    Args:
        start: α at first.
        lr: Learning rate of log α, by Adam; 0 keeps it.
        target: H̄ in nats.
        device: Where entropies come from.
    """

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

    def step(self, entropy: Tensor) -> None:
        """One step, after the policy was found to have this entropy (scalar, no gradient).

        One that is not finite pulls nowhere.
        """
        gap = torch.where(entropy.isfinite(), entropy - self.target, 0.0)
        self.optim.zero_grad(set_to_none=True)
        (self.log * gap).backward()
        self.optim.step()

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"log": self.log.detach().clone(), "optim": self.optim.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        with torch.no_grad():
            self.log.copy_(state["log"])
        self.optim.load_state_dict(state["optim"])
