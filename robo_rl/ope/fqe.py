"""Fitted Q evaluation: what a policy would come to from the data's starts, by its own values.

Shapes: M members, B rows of a batch, E episodes, H actions of a chunk, A act_dim. Source: Le,
Voloshin & Yue 2019 (arXiv 1903.08738), algorithm 3, over whole chunks and with an average of the
weights in place of iterations:

    Q(o, a) ← rew + discount·(1 − terminated)·Q'(o', π(o'))

Each member learns from episodes drawn anew, so that their scatter is the bootstrap's (Hao et al.
2021, arXiv 2102.03607, algorithm 2). Two policies that are judged with one seed are judged on the
same resamples, batches and initial weights: their difference is sharper than either.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.descent import Descent
from robo_rl.algo.ema import Follower
from robo_rl.config import ConfigModel
from robo_rl.critic.q import QCritic, td_target
from robo_rl.data.replay import Replay
from robo_rl.ope.resample import Resample
from robo_rl.policy.base import DenoisingPolicy


class Estimate(NamedTuple):
    """What a policy is worth: (M,), a value a resample of the data."""

    members: Tensor


class Fqe:
    """Action values of one policy.

    Args:
        cfg: See Config.
        policy: Is judged as it is evaluated; not trained.
        replay: The data, every row of them.
        resample: Of its episodes, with as many members.
        generator: Draws batches and the policy's noise.
    """

    class Config(ConfigModel):
        """Ensemble, optimiser and length; ``target_ema`` is the decay of Q'."""

        steps: int = Field(default=3000, ge=1)
        minibatch: int = Field(default=256, ge=1)
        lr: float = Field(default=1e-3, gt=0.0)
        grad_clip: float = Field(default=10.0, gt=0.0)
        target_ema: float = Field(default=0.99, ge=0.0, lt=1.0)
        critic: QCritic.Config = QCritic.Config(members=8)

    def __init__(
        self,
        cfg: Config,
        policy: DenoisingPolicy,
        replay: Replay,
        resample: Resample,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.replay, self.resample = replay, resample
        self.critic = QCritic(
            cfg.critic,
            policy.obs_spec,
            policy.act_spec,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            normalizer=policy.normalizer,
        )
        self.target = Follower(self.critic, cfg.target_ema)
        self.descent = Descent(self.critic.net.parameters(), cfg.lr, cfg.grad_clip)

    def step(self) -> float:
        """One of ``cfg.steps``; returns the loss.

        Raises:
            PluginError: The gradient was not finite for long.
        """
        rows = self.replay.draw(self.cfg.minibatch, self.generator)
        batch, weights = self.replay.transitions(rows), self.resample.weights(rows)
        with torch.no_grad():
            ahead = self.target.module(batch.next_obs, self._act(batch.next_obs))
            wanted = td_target(batch.rew, batch.discount, batch.terminated, ahead)
        loss = (weights * self.critic.loss(batch.obs, batch.act, wanted)).sum(dim=0).mean()
        self.descent.step(loss)
        self.target.update(self.critic)
        return float(loss.detach())

    @torch.no_grad()
    def estimate(self) -> Estimate:
        """From the starts of all episodes, each member's mean over its own."""
        obs = self.replay.transitions(self.resample.starts).obs
        values = self.target.module(obs, self._act(obs))
        return Estimate(self.resample.mean(values))

    def _act(self, obs: dict[str, Tensor]) -> Tensor:
        shape = len(next(iter(obs.values()))), self.policy.horizon, self.policy.act_spec.size
        noise = self.policy.eval_sampler.start(shape, self.generator)
        return self.policy.decode_normalized(obs, noise)
