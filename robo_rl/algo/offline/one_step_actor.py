"""A student of one step that climbs values and stays near something: what FQL and TD3+BC share.

    actor   w·‖μ(o, z) − near‖² − λ·Q(o, μ(o, z)),  λ = 1 / mean |Q|
    critics Q(o, a) ← rew + discount·(1 − terminated)·what follows

The gradient of Q runs through one step alone. Unlike with IQL, critics are asked about chunks that
are not in the data; what the student stays near to says how far from them.

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
    """Learns a policy of one step, and critics of what that policy does.

    Args:
        cfg: Of critics and student.
        nearness: w.
        inputs: See ``OfflineInputs``; the student has the policy's sizes and begins from its
            network, the student's critics begin from the critics' Q'.
    """

    class Config(TdCritics.Config):
        """The critics', and the student's optimiser."""

        optim: SupervisedTrainer.Config = Field(default=SupervisedTrainer.Config(lr=3e-4))
        """Optimiser, its schedule and the averaging of weights."""

    state_parts = ("critics",)

    def __init__(self, cfg: Config, nearness: float, inputs: OfflineInputs) -> None:
        with seeded_initialization(type(self).__name__.lower(), inputs.generator.initial_seed()):
            student = make_one_step_student(
                inputs.policy
            )  # what the policy cannot lend it is drawn
        super().__init__(cfg, cfg.optim, inputs, student)
        self.bc_coef, self.minibatch = nearness, cfg.minibatch
        self.critics = TdCritics(cfg, inputs.critics)

    @abstractmethod
    def bc_target(self, batch: Transitions, noise: Tensor) -> Tensor:
        """What the student is to stay near to: (B, H, A) in network units, without gradients."""

    @abstractmethod
    def next_q(self, obs: dict[str, Tensor]) -> Tensor:
        """What follows is worth by Q': (B,), without gradients."""

    def step(self) -> dict[str, float]:
        """One gradient step of both; returns losses, and the mean value of what the student does.

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
        """The student's chunks (B, H, A), as it stands."""
        return self.trainer.policy.decode_normalized(obs, noise)

    def noise(self, obs: dict[str, Tensor]) -> Tensor:
        """(B, H, A), what a chain begins with."""
        rows = len(next(iter(obs.values())))
        policy = self.inputs.policy
        return randn((rows, policy.horizon, policy.act_spec.size), self.generator)

    def _actor_loss(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """Each row's (B,), and the mean value."""
        noise = self.noise(batch.obs)
        with torch.no_grad():
            near = self.bc_target(batch, noise)
        act = self.act(batch.obs, noise)
        apart = (act - near).square().mean(dim=(1, 2))
        with frozen_weights(self.critics.critic.net):
            worth = self.critics.critic(batch.obs, act).mean(dim=0)
        scale = worth.detach().abs().mean().clamp(min=1e-6)
        return self.bc_coef * apart - worth / scale, worth.detach().mean()
