"""Critics of a policy that is in the making: begun as the data's, they learn what it would do.

Shapes: B rows of a batch, M critics, H horizon, A act_dim.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.config.models import ConfigModel
from robo_rl.critic.q import td_target
from robo_rl.data.transitions import Transitions
from robo_rl.optim.ema import TargetNetwork
from robo_rl.optim.optimizer import ClippedOptimizer


class TdCritics:
    """Q(o, a) ← rew + discount·(1 − terminated)·what its own next chunk is worth by Q'.

    Args:
        cfg: See Config.
        critics: Their Q' is where these begin; stays as it is.
    """

    class Config(ConfigModel):
        """Rows of a step, rate, the largest norm of a gradient, and the decay of Q'."""

        minibatch: int = Field(default=256, ge=1)
        critic_lr: float = Field(default=3e-4, gt=0.0)
        grad_clip: float = Field(default=10.0, gt=0.0)
        target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)

    def __init__(self, cfg: Config, critics: OfflineCritics) -> None:
        self.rule = critics.rule
        self.critic = deepcopy(critics.target.module).requires_grad_()
        self.target = TargetNetwork(self.critic, cfg.target_ema)
        self.optimizer = ClippedOptimizer(
            self.critic.net.parameters(), cfg.critic_lr, cfg.grad_clip
        )

    def step(self, batch: Transitions, ahead: Tensor, generator: torch.Generator) -> Tensor:
        """One step towards targets whose bootstrap is ahead (B,); returns the loss.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        wanted = td_target(batch.rew, batch.discount, batch.terminated, ahead)
        act = batch.act_with_masked_tail(generator)
        loss = self.critic.loss(batch.obs, act, wanted).sum(dim=0).mean()
        self.optimizer.step(loss)
        self.target.update(self.critic)
        return loss.detach()

    def q_value(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q(o, a) of chunks (B, H, A) in network units, by the rule of those before: (B,)."""
        return self.rule(self.critic(obs, act), generator)

    def next_q(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) likewise."""
        return self.rule(self.target.module(obs, act), generator)

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "critic": self.critic.net.state_dict(),
            "target": self.target.state_dict(),
            "optim": self.optimizer.optim.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.critic.net.load_state_dict(state["critic"])
        self.target.load_state_dict(state["target"])
        self.optimizer.optim.load_state_dict(state["optim"])
