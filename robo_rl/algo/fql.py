"""Flow Q-learning: a student of one step that stays near the policy and does what critics prefer.

The policy before, of whatever family and as many steps, is not differentiated through: its student
maps the same noise to the same chunk, but for where another is worth more (Park, Li & Levine 2025,
FQL, arXiv 2502.02538, algorithm 1):

    actor   α·‖μ(o, z) − π(o, z)‖² − λ·Q(o, μ(o, z)),  λ = 1 / mean |Q|
    critics Q(o, a) ← rew + discount·(1 − terminated)·mean of Q'(o', μ(o', z))

Unlike with IQL, critics are asked about chunks that are not in the data; α says how near these must
be. What comes of it is a policy of one step.

Shapes: B rows of a batch, M critics, H horizon, A act_dim.
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.bc import Supervised
from robo_rl.algo.logged_critics import LoggedCritics
from robo_rl.algo.own_critics import OwnCritics
from robo_rl.algo.seek import demand_decodes
from robo_rl.data.replay import Replay
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import randn
from robo_rl.policy.one_step import student_of
from robo_rl.seeding import initialising


class Fql:
    """Learns the student and critics of what it does; an ``Improver``.

    Args:
        cfg: See Config.
        policy: What the student stays near; stays as it is.
        critics: Its Q' is where the student's critics begin.
        replay: The data.
        steps: Length of the schedule.
        generator: Draws batches and noise.
    """

    class Config(OwnCritics.Config):
        """``alpha`` α, the critics', and the student's optimiser."""

        alpha: float = Field(default=10.0, gt=0.0)
        optim: Supervised.Config = Supervised.Config(lr=3e-4)

    def __init__(
        self,
        cfg: Config,
        policy: DenoisingPolicy,
        critics: LoggedCritics,
        replay: Replay,
        *,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.teacher, self.replay, self.generator = cfg, policy, replay, generator
        with initialising("fql", generator.initial_seed()):  # what the policy cannot lend it
            student = student_of(policy).train()
        self.trainer = Supervised(cfg.optim, student, steps)
        self.critics = OwnCritics(cfg, critics)

    @staticmethod
    def check_settings(policy: DenoisingPolicy.Config) -> None:
        """See ``Choosy``."""
        demand_decodes(policy)

    @property
    def policy(self) -> DenoisingPolicy:
        """What came of it: the averaged weights, of one step."""
        return self.trainer.ema.module.eval()

    def step(self) -> dict[str, float]:
        """One gradient step of both; returns losses, and the mean value of what the student does.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        batch = self.replay.sample(self.cfg.minibatch, self.generator)
        critic_loss = self.critics.step(batch, self._ahead(batch.next_obs), self.generator)
        loss, value = self._actor_loss(batch.obs)
        found = {"loss": self.trainer.step(loss), "critic_loss": critic_loss}
        return {**found, "value": float(value)}

    @torch.no_grad()
    def _ahead(self, obs: dict[str, Tensor]) -> Tensor:
        """What the student's chunks are worth by Q', mean of the critics: (B,)."""
        act = self.trainer.policy.decode_normalized(obs, self._noise(obs))
        return self.critics.target.module(obs, act).mean(dim=0)

    def _actor_loss(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Each row's (B,), and the mean value."""
        noise = self._noise(obs)
        with torch.no_grad():
            near = self.teacher.decode_normalized(obs, noise)
        act = self.trainer.policy.decode_normalized(obs, noise)
        apart = (act - near).square().mean(dim=(1, 2))
        worth = self.critics.critic(obs, act).mean(dim=0)
        scale = worth.detach().abs().mean().clamp(min=1e-6)
        return self.cfg.alpha * apart - worth / scale, worth.detach().mean()

    def _noise(self, obs: dict[str, Tensor]) -> Tensor:
        rows = len(next(iter(obs.values())))
        return randn((rows, self.teacher.horizon, self.teacher.act_spec.size), self.generator)

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"trainer": self.trainer.state_dict(), "critics": self.critics.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.trainer.load_state_dict(state["trainer"])
        self.critics.load_state_dict(state["critics"])
