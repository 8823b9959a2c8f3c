"""Self-imitation: beside the policy gradient, clone what went better than expected.

Shapes: N decisions, H horizon, A act_dim. Source: Oh et al. 2018 (arXiv 1806.05635): decisions whose
return exceeded the value, weighted by the excess (R − V)₊ — here under the family's own cloning
loss, which needs no likelihood.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config import ConfigModel
from robo_rl.policy.base import DenoisingPolicy


class SelfImitation:
    """A buffer of the better decisions, drawn in proportion to their excess.

    Args:
        cfg: See Config.
        policy: Trained in place.
        generator: Draws batches and the loss's noise.
    """

    class Config(ConfigModel):
        """Gradient steps an update (0 is off), their batch and rate, decisions that are kept."""

        steps: int = Field(default=0, ge=0)
        batch: int = Field(default=512, ge=1)
        lr: float = Field(default=3e-4, gt=0.0)
        capacity: int = Field(default=40_000, ge=1)

    def __init__(self, cfg: Config, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.params = [*policy.net.parameters()]
        self.optim = torch.optim.AdamW(self.params, lr=cfg.lr, weight_decay=0.0, fused=True)
        self.obs: dict[str, Tensor] = {}
        self.act = torch.zeros(0)
        self.weight = torch.zeros(0)

    def add(self, obs: dict[str, Tensor], act: Tensor, excess: Tensor) -> None:
        """Take in decisions: obs name → (N, To, …), act (N, H, A) in physical units, R − V (N,)."""
        better = excess > 0
        old = self.obs or {name: o[:0] for name, o in obs.items()}
        keep = slice(-self.cfg.capacity, None)
        self.obs = {name: torch.cat([old[name], o[better]])[keep] for name, o in obs.items()}
        self.act = torch.cat([self.act.reshape(-1, *act.shape[1:]), act[better]])[keep]
        self.weight = torch.cat([self.weight, excess[better]])[keep]

    def learn(self) -> dict[str, float]:
        """The gradient steps of one update; returns metrics."""
        total = 0.0
        for _ in range(self.cfg.steps):
            pick = torch.multinomial(
                self.weight, self.cfg.batch, replacement=True, generator=self.generator
            )
            obs = {name: o[pick] for name, o in self.obs.items()}
            loss = self.policy.loss(obs, self.act[pick], self.generator).mean()
            self.optim.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.params, 1.0)
            self.optim.step()
            total += float(loss.detach())
        return {"imitation_loss": total / self.cfg.steps, "imitated": float(len(self.weight))}

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "optim": self.optim.state_dict(),
            "obs": self.obs,
            "act": self.act,
            "weight": self.weight,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.optim.load_state_dict(state["optim"])
        self.obs, self.act, self.weight = state["obs"], state["act"], state["weight"]
