"""Critics of logged decisions: Q with its target network Q', and V.

Shapes: B rows of a batch, M critics, H actions of a chunk, A act_dim. Q is an ensemble; a rule
reduces its members to one value. Offline algorithms use Q' and the advantage Q' − V.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.stateful import Trainable
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
    """Sizes, optimisers and ensemble aggregation.

    ``target_ema`` is the decay of Q'; ``aggregation`` reduces its members to one value.
    """

    minibatch: int = Field(default=256, ge=1)
    """Rows of a minibatch."""
    lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of Q and V."""
    grad_clip: float = Field(default=10.0, gt=0.0)
    """Largest gradient norm."""
    target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)
    """Decay of the target network Q'."""
    critic: QCritic.Config = QCritic.Config(members=2)
    """Size and loss of the ensemble of Q networks."""
    aggregation: EnsembleAggregation.Config = EnsembleAggregation.Config()
    """How the members of Q' are reduced to one value."""
    value: ValueCritic.Config = ValueCritic.Config()
    """Size of the state-value network V."""

    @field_validator("critic")
    @classmethod
    def _learns_values(cls, critic: QCritic.Config) -> QCritic.Config:
        return critic.demand_values()

    @model_validator(mode="after")
    def _critics_can_be_reduced(self) -> Self:
        try:
            self.aggregation.check_critic(self.critic.members)
        except ValueError as error:
            raise ValueError(f"aggregation.{error}") from error
        return self


class OfflineCritics(QLearner, Trainable):
    """Q, Q' and V for chunks of a policy.

    Args:
        cfg: See ``OfflineCriticsConfig``.
        policy: The critics share its specs, horizons and normaliser; not changed.
        replay: The data.
        generator: Draws batches, and subsets of critics.
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
        critic = QCritic.of_policy(cfg.critic, policy)
        super().__init__(critic, lr=cfg.lr, grad_clip=cfg.grad_clip, target_ema=cfg.target_ema)
        self.value = ValueCritic(cfg.value, policy.env_spec, policy.obs_horizon, policy.normalizer)
        self.value.to(policy.device)
        self.value_optimizer = ClippedOptimizer(self.value.net.parameters(), cfg.lr, cfg.grad_clip)
        self.rule = EnsembleAggregation(cfg.aggregation, cfg.critic.members)

    def step(self) -> dict[str, float]:
        """Take one gradient step of Q and V; returns losses and the mean value.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        found = self.learn(self.replay.sample(self.cfg.minibatch, self.generator))
        return read(found)

    @abstractmethod
    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Take one gradient step of Q and V on a batch; returns losses and the mean value."""

    @torch.no_grad()
    def advantage(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) − V(o) of chunks (B, H, A) in network units: (B,).

        The rule draws from the caller's generator, so results are reproducible with its state.
        """
        return self.q_value(obs, act, generator) - self.value(obs)

    def q_value(self, obs: dict[str, Tensor], act: Tensor, generator: torch.Generator) -> Tensor:
        """Q'(o, a) of chunks (B, H, A) in network units: (B,), differentiable by the chunks."""
        return self.rule(self.target.module(obs, act), generator)
