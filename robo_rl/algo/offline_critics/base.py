"""Critics of logged decisions: what all of them have, however they learn.

Shapes: B rows of a batch, M critics, H actions of a chunk, A act_dim. An ensemble Q with an average
of its weights Q', of which a rule makes one value, and V of states: offline algorithms ask them
for Q' and for Q' − V.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.trainable import Trainable
from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.critic.q import QCritic
from robo_rl.critic.q_learner import QLearner
from robo_rl.critic.value import ValueCritic
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.scalars import read
from robo_rl.policy.base import DenoisingPolicy


class OfflineCriticsConfig(ConfigModel):
    """Sizes, optimisers and the rule.

    ``target_ema`` is the decay of Q', ``aggregation`` makes one value of its members'.
    """

    minibatch: int = Field(default=256, ge=1)
    """Rows of a gradient step."""
    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of Q and V."""
    grad_clip: float = Field(default=10.0, gt=0.0)
    """Largest norm of a gradient."""
    target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)
    """Decay of the target network Q'."""
    critic: QCritic.Config = QCritic.Config(members=2)
    """Size and loss of the ensemble of Q networks."""
    aggregation: EnsembleAggregation.Config = EnsembleAggregation.Config()
    """How one value is made of the members of Q'."""
    value: ValueCritic.Config = ValueCritic.Config()
    """Size of the state value network V."""


class OfflineCritics(QLearner, Trainable):
    """Q, Q' and V of a policy's chunks.

    Args:
        cfg: See ``OfflineCriticsConfig``.
        policy: Whose observations, chunks and normaliser they share; stays as it is.
        replay: The data.
        generator: Of batches and of the rule.
    """

    Config = OfflineCriticsConfig
    state_parts = ("value", "value_optimizer")

    def __init__(
        self,
        cfg: OfflineCriticsConfig,
        policy: DenoisingPolicy,
        replay: Replay,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.replay, self.generator = cfg, replay, generator
        critic = QCritic(
            cfg.critic,
            policy.obs_spec,
            policy.act_spec,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            normalizer=policy.normalizer,
        ).to(policy.device)
        super().__init__(critic, lr=cfg.lr, grad_clip=cfg.grad_clip, target_ema=cfg.target_ema)
        self.value = ValueCritic(cfg.value, policy.obs_spec, policy.obs_horizon, policy.normalizer)
        self.value.to(policy.device)
        self.value_optimizer = ClippedOptimizer(self.value.net.parameters(), cfg.lr, cfg.grad_clip)
        self.rule = EnsembleAggregation(cfg.aggregation, cfg.critic.members)

    def step(self) -> dict[str, float]:
        """One gradient step of all of them; returns losses and the mean value.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        found = self.learn(self.replay.sample(self.cfg.minibatch, self.generator))
        return read(found)

    @abstractmethod
    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """One gradient step of Q and of V on a batch; returns losses and the mean value."""

    @torch.no_grad()
    def advantage(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) − V(o) of chunks (B, H, A) in network units: (B,).

        The generator is the caller's, for the rule: what is drawn from it comes back with it.
        """
        return self.q_value(obs, act, generator) - self.value(obs)

    def q_value(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) likewise; (B,) with gradients by the chunks where they have them."""
        return self.rule(self.target.module(obs, act), generator)
