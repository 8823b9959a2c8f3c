"""One-step policy that maximises Q near a target action: the shared part of FQL and TD3+BC.

    actor   w·‖μ(o, z) − target‖² − λ·Q(o, μ(o, z)),  λ = 1 / mean |Q|
    critics Q(o, a) ← rew + discount·(1 − terminated)·bootstrap

The gradient of Q runs through one denoising step. Unlike IQL, the critics also evaluate chunks
outside the data; w limits the distance.

Shapes: B rows of a batch, M critics, H horizon, A act_dim.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline.base import OfflineInputs, SupervisedAlgorithm
from robo_rl.algo.offline_critics.td_critics import TdCritics
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.core.seeding import seeded_initialization
from robo_rl.data.transitions import Transitions
from robo_rl.optim.optimizer import frozen_weights
from robo_rl.optim.scalars import read
from robo_rl.policy.chain import randn
from robo_rl.policy.one_step import make_one_step_student


class OneStepActor(SupervisedAlgorithm):
    """Trains a one-step policy, and TD critics of that policy.

    Args:
        cfg: Settings of critics and student.
        nearness: w.
        inputs: See ``OfflineInputs``; the student starts from the policy's network, and its critics
            start from Q' of ``inputs.critics``.
    """

    class Config(TdCritics.Config):
        """Settings of the TD critics, and the student's optimiser."""

        optim: SupervisedTrainer.Config = Field(default=SupervisedTrainer.Config(lr=3e-4))
        """Optimiser, learning-rate schedule and weight averaging."""

    state_parts = ("critics",)

    def __init__(self, cfg: Config, nearness: float, inputs: OfflineInputs) -> None:
        with seeded_initialization(type(self).__name__.lower(), inputs.generator.initial_seed()):
            student = make_one_step_student(inputs.policy)  # layers without a counterpart are drawn
        super().__init__(cfg, cfg.optim, inputs, student)
        self.bc_coef, self.minibatch = nearness, cfg.minibatch
        self.critics = TdCritics(cfg, inputs.critics)

    @abstractmethod
    def bc_target(self, batch: Transitions, noise: Tensor) -> Tensor:
        """Target chunks (B, H, A) in network units, without gradients."""

    @abstractmethod
    def next_q(self, obs: dict[str, Tensor]) -> Tensor:
        """Bootstrap values (B,) by Q', without gradients."""

    def step(self) -> dict[str, float]:
        """Take one gradient step of critics and student; returns losses and the mean value.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        batch = self.replay.sample(self.minibatch, self.generator)
        with torch.no_grad():
            ahead = self.next_q(batch.next_obs)
        critic_loss = self.critics.step(batch, ahead, self.generator)
        loss, value = self._actor_loss(batch)
        found = {"loss": self.trainer.step(loss), "critic_loss": critic_loss}
        return read({**found, "value": value})

    def act(self, obs: dict[str, Tensor], noise: Tensor) -> Tensor:
        """The student's chunks (B, H, A) with its current weights."""
        return self.trainer.policy.decode_normalized(obs, noise)

    def noise(self, obs: dict[str, Tensor]) -> Tensor:
        """Draw initial noise (B, H, A) of the student's chains."""
        rows = len(next(iter(obs.values())))
        policy = self.inputs.policy
        return randn((rows, policy.horizon, policy.act_spec.size), self.generator)

    def _actor_loss(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """The loss (B,) of each row, and the mean value."""
        noise = self.noise(batch.obs)
        with torch.no_grad():
            near = self.bc_target(batch, noise)
        act = self.act(batch.obs, noise)
        apart = (act - near).square().mean(dim=(1, 2))
        with frozen_weights(self.critics.critic.net):
            worth = self.critics.critic(batch.obs, act).mean(dim=0)
        scale = worth.detach().abs().mean().clamp(min=1e-6)
        return self.bc_coef * apart - worth / scale, worth.detach().mean()
