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

from copy import deepcopy
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.bc import Supervised
from robo_rl.algo.descent import Descent
from robo_rl.algo.ema import Follower
from robo_rl.algo.iql import Iql
from robo_rl.config import ConfigModel
from robo_rl.critic.q import td_target
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.errors import ConfigError
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

    class Config(ConfigModel):
        """``alpha`` α, the critics' rate and the decay of Q', and the student's optimiser."""

        alpha: float = Field(default=10.0, gt=0.0)
        minibatch: int = Field(default=256, ge=1)
        critic_lr: float = Field(default=3e-4, gt=0.0)
        grad_clip: float = Field(default=10.0, gt=0.0)
        target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)
        optim: Supervised.Config = Supervised.Config(lr=3e-4)

    def __init__(
        self,
        cfg: Config,
        policy: DenoisingPolicy,
        critics: Iql,
        replay: Replay,
        *,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.teacher, self.replay, self.generator = cfg, policy, replay, generator
        with initialising("fql", generator.initial_seed()):  # what the policy cannot lend it
            student = student_of(policy).train()
        self.trainer = Supervised(cfg.optim, student, steps)
        self.critic = deepcopy(critics.target.module).requires_grad_()
        self.target = Follower(self.critic, cfg.target_ema)
        self.descent = Descent(self.critic.net.parameters(), cfg.critic_lr, cfg.grad_clip)

    @staticmethod
    def check_settings(policy: DenoisingPolicy.Config) -> None:
        """See ``Choosy``."""
        if not policy.decodes:
            raise ConfigError(
                "a student needs a policy whose evaluation draws noise at its start alone",
                where="policy.eval_eta",
                expected=0,
                hint="awr and parl improve any policy",
            )

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
        critic_loss = self._critic_loss(batch)
        self.descent.step(critic_loss)
        self.target.update(self.critic)
        loss, value = self._actor_loss(batch.obs)
        found = {"loss": self.trainer.step(loss), "critic_loss": float(critic_loss.detach())}
        return {**found, "value": float(value)}

    def _critic_loss(self, batch: Transitions) -> Tensor:
        with torch.no_grad():
            student = self.trainer.policy
            ahead_act = student.decode_normalized(batch.next_obs, self._noise(batch.next_obs))
            ahead = self.target.module(batch.next_obs, ahead_act).mean(dim=0)
            wanted = td_target(batch.rew, batch.discount, batch.terminated, ahead)
        act = batch.judged_act(self.generator)
        return self.critic.loss(batch.obs, act, wanted).sum(dim=0).mean()

    def _actor_loss(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Each row's (B,), and the mean value."""
        noise = self._noise(obs)
        with torch.no_grad():
            near = self.teacher.decode_normalized(obs, noise)
        act = self.trainer.policy.decode_normalized(obs, noise)
        apart = (act - near).square().mean(dim=(1, 2))
        worth = self.critic(obs, act).mean(dim=0)
        scale = worth.detach().abs().mean().clamp(min=1e-6)
        return self.cfg.alpha * apart - worth / scale, worth.detach().mean()

    def _noise(self, obs: dict[str, Tensor]) -> Tensor:
        rows = len(next(iter(obs.values())))
        return randn((rows, self.teacher.horizon, self.teacher.act_spec.size), self.generator)

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return {
            "trainer": self.trainer.state_dict(),
            "critic": self.critic.net.state_dict(),
            "target": self.target.state_dict(),
            "optim": self.descent.optim.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.trainer.load_state_dict(state["trainer"])
        self.critic.net.load_state_dict(state["critic"])
        self.target.load_state_dict(state["target"])
        self.descent.optim.load_state_dict(state["optim"])
