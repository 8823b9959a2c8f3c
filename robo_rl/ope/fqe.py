"""Fitted Q evaluation: estimates a policy's return from the starts of the data.

Shapes: M members, B rows of a batch, N rows, E episodes or executed actions, A act_dim. Source: Le,
Voloshin & Yue 2019 (arXiv 1903.08738), algorithm 3, over whole chunks and with a target network in
place of iterations:

    Q(o, a, t) ← rew + discount·(1 − terminated)·Q'(o', π(o'), t')

The estimate is the return of an episode of the data's length. t is the time; there is no bootstrap
at the time limit (``ope.time_aware``).

Each member learns from a bootstrap resample of the episodes, so the spread of the members estimates
the standard error (Hao et al. 2021, arXiv 2102.03607, algorithm 2). Two policies evaluated with one
seed share resamples, batches and initial weights. Their difference has a smaller error than either
value.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field, field_validator
from torch import Tensor

from robo_rl.algo.policy_samples import CachedPolicyActions, EvaluablePolicy, act_normalized
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.core.seeding import make_generator
from robo_rl.core.stateful import Trainable
from robo_rl.critic.q import QCritic
from robo_rl.critic.q_learner import QLearner
from robo_rl.data.replay import Replay
from robo_rl.ope.resample import Resample
from robo_rl.ope.time_aware import ELAPSED, TimeAwareNormalizer, with_time_feature

_LEAST = 4
"""Minimum number of members for a standard error."""


class ValueEstimate(NamedTuple):
    """Estimated value of a policy.

    Args:
        members: (M,), one value per resample of the data.
        effective_fraction: Effective sample fraction of the data's decisions, if they are weighted.
    """

    members: Tensor
    effective_fraction: float | None = None


class Fqe(QLearner, Trainable):
    """Action values of one policy.

    Args:
        cfg: See Config.
        policy: The policy under its evaluation sampler; not trained.
        replay: All rows of the data, with a time feature (``ope.time_aware.add_time_feature``).
        resample: Bootstrap resamples of the episodes, one per member.
        generator: Draws batches and the policy's noise.
    """

    class Config(ConfigModel):
        """Ensemble, optimiser and length; ``target_ema`` is the decay of Q'.

        The policy's actions are sampled ``num_samples`` times per row, once before training.
        Targets draw from these samples, because sampling from the policy is slow.
        """

        steps: int = Field(default=3000, ge=1)
        """Gradient steps."""
        minibatch: int = Field(default=256, ge=1)
        """Rows of a minibatch."""
        lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest gradient norm."""
        target_ema: float = Field(default=0.95, ge=0.0, lt=1.0)
        """Decay of the target network Q'."""
        num_samples: int = Field(default=4, ge=1)
        """Policy actions sampled for every row."""
        critic: QCritic.Config = QCritic.Config(members=8, hidden=(128, 128))
        """Size and loss of the ensemble of Q networks."""

        @field_validator("critic")
        @classmethod
        def _scatters(cls, critic: QCritic.Config) -> QCritic.Config:
            critic.demand_values()
            if critic.members < _LEAST:
                raise ValueError(
                    f"members: at least {_LEAST}, for how sure one is is their scatter"
                )
            return critic

    def __init__(
        self,
        cfg: Config,
        policy: EvaluablePolicy,
        replay: Replay,
        resample: Resample,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.replay, self.resample = replay, resample
        timed = TimeAwareNormalizer(policy.normalizer)
        sees = (*cfg.critic.sees, ELAPSED) if cfg.critic.sees else ()
        critic = QCritic(
            cfg.critic.model_copy(update={"sees": sees}),
            with_time_feature(policy.env_spec),
            policy.act_spec,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            normalizer=timed,
        )
        super().__init__(critic, lr=cfg.lr, grad_clip=cfg.grad_clip, target_ema=cfg.target_ema)
        most = max(1, cfg.steps * cfg.minibatch // replay.rows)  # no more samples than draws
        asked = make_generator(
            "answers", generator.initial_seed()
        )  # separate from the batches' generator
        self.policy_actions = CachedPolicyActions(policy, replay, min(cfg.num_samples, most), asked)

    def step(self) -> dict[str, float]:
        """Take one of ``cfg.steps`` steps; returns the loss, and the mean next value.

        Raises:
            PluginError: The gradient was not finite for long.
        """
        rows = self.replay.draw(self.cfg.minibatch, self.generator)
        batch, weights = self.replay.transitions(rows), self.resample.weights(rows)
        with torch.no_grad():
            follows = self.policy_actions.sample(batch.next_row, self.generator)
            ahead = self.target.module(batch.next_obs, follows)
        batch = batch._replace(act=batch.act_with_masked_tail(self.generator))
        loss = self.td_step(batch, ahead, weights)
        return {"loss": float(loss), "value": float(ahead.mean())}

    @torch.no_grad()
    def estimate(self) -> ValueEstimate:
        """Return each member's mean value over the starts of its own episodes.

        Raises:
            DataError: A value is not finite.
        """
        obs = self.replay.transitions(self.resample.starts).obs
        act = act_normalized(self.policy, obs, self.generator)
        members = self.resample.mean(self.target.module(obs, act))
        if not bool(members.isfinite().all()):
            raise DataError(
                "the policy's values are not finite",
                hint="lower fqe.lr, or look for absurd rewards",
            )
        return ValueEstimate(members)
