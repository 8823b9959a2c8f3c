"""TD critics of a policy under training, initialised from offline critics.

Shapes: B rows of a batch, M critics, H horizon, A act_dim.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.config.models import ConfigModel
from robo_rl.critic.q_learner import QLearner
from robo_rl.data.transitions import Transitions


class TdCritics(QLearner):
    """Q(o, a) ← rew + discount·(1 − terminated)·bootstrap, with the policy's next chunk.

    Args:
        cfg: See Config.
        critics: The critics start from Q' of these offline critics, which are not changed.
    """

    class Config(ConfigModel):
        """Minibatch, optimiser, and decay of Q'."""

        minibatch: int = Field(default=256, ge=1)
        """Rows of a minibatch."""
        critic_lr: float = Field(default=3e-4, gt=0.0)
        """Learning rate of Q."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest gradient norm."""
        target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)
        """Decay of the target network Q'."""

    def __init__(self, cfg: Config, critics: OfflineCritics) -> None:
        super().__init__(
            deepcopy(critics.target.module).requires_grad_(),
            lr=cfg.critic_lr,
            grad_clip=cfg.grad_clip,
            target_ema=cfg.target_ema,
        )
        self.rule = critics.rule

    def step(self, batch: Transitions, ahead: Tensor, generator: torch.Generator) -> Tensor:
        """Take one step towards TD targets with bootstrap values ``ahead`` (B,); returns the loss.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        judged = batch._replace(act=batch.act_with_masked_tail(generator))
        return self.td_step(judged, ahead)

    def q_value(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q(o, a) of chunks (B, H, A) in network units, by the offline critics' rule: (B,)."""
        return self.rule(self.critic(obs, act), generator)

    def next_q(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) of chunks (B, H, A) in network units, by the same rule: (B,)."""
        return self.rule(self.target.module(obs, act), generator)
