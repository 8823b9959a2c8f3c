"""Fitted Q evaluation: what a policy would come to from the data's starts, by its own values.

Shapes: M members, B rows of a batch, N rows, E episodes or executed actions, A act_dim. Source: Le,
Voloshin & Yue 2019 (arXiv 1903.08738), algorithm 3, over whole chunks and with an average of the
weights in place of iterations:

    Q(o, a, t) ← rew + discount·(1 − terminated)·Q'(o', π(o'), t')

What is estimated is what an episode of the data's length comes to: t is the time, and at the limit
nothing follows (``ope.clock``).

Each member learns from episodes drawn anew, so that their scatter is the bootstrap's (Hao et al.
2021, arXiv 2102.03607, algorithm 2). Two policies that are judged with one seed are judged on the
same resamples, batches and initial weights: their difference is sharper than either.
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
from robo_rl.core.trainable import Trainable
from robo_rl.critic.q import QCritic
from robo_rl.critic.q_learner import QLearner
from robo_rl.data.replay import Replay
from robo_rl.ope.resample import Resample
from robo_rl.ope.time_aware import TimeAwareNormalizer, with_time_feature

_LEAST = 4
"""Members of which a standard error can be told."""


class ValueEstimate(NamedTuple):
    """What a policy is worth.

    Args:
        members: (M,), a value a resample of the data.
        effective_fraction: The share of the data's decisions that it rests on, where it weighs them.
    """

    members: Tensor
    effective_fraction: float | None = None


class Fqe(QLearner, Trainable):
    """Action values of one policy.

    Args:
        cfg: See Config.
        policy: Is judged as it is evaluated; not trained.
        replay: The data, every row of them, which know the time (``ope.clock.timed``).
        resample: Of its episodes, with as many members.
        generator: Draws batches and the policy's noise.
    """

    class Config(ConfigModel):
        """Ensemble, optimiser and length; ``target_ema`` is the decay of Q'.

        The policy is asked once for what it would do in every row, ``num_samples`` times over, and its
        answers are drawn from: they are the same policy's all along, and asking it is what costs.
        """

        steps: int = Field(default=3000, ge=1)
        """Gradient steps."""
        minibatch: int = Field(default=256, ge=1)
        """Rows of a gradient step."""
        lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest norm of a gradient."""
        target_ema: float = Field(default=0.95, ge=0.0, lt=1.0)
        """Decay of the target network Q'."""
        num_samples: int = Field(default=4, ge=1)
        """Actions of the policy that are drawn for every row."""
        critic: QCritic.Config = QCritic.Config(members=8, hidden=(128, 128))
        """Size and loss of the ensemble of Q networks."""

        @field_validator("critic")
        @classmethod
        def _scatters(cls, critic: QCritic.Config) -> QCritic.Config:
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
        timed = TimeAwareNormalizer(policy.normalizer, tuple(policy.obs_spec.items))
        critic = QCritic(
            cfg.critic,
            with_time_feature(policy.obs_spec),
            policy.act_spec,
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            normalizer=timed,
        )
        super().__init__(critic, lr=cfg.lr, grad_clip=cfg.grad_clip, target_ema=cfg.target_ema)
        most = max(1, cfg.steps * cfg.minibatch // replay.rows)  # not more than are drawn from them
        asked = make_generator(
            "answers", generator.initial_seed()
        )  # batches are not to depend on it
        self.policy_actions = CachedPolicyActions(policy, replay, min(cfg.num_samples, most), asked)

    def step(self) -> dict[str, float]:
        """One of ``cfg.steps``; returns the loss, and the mean value of what follows.

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
        """From the starts of all episodes, each member's mean over its own.

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
