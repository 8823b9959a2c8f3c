"""Advantage estimators with a value critic (GAE) and with episode groups (GRPO).

Shapes: T decisions, B envs, N valid decisions, G episodes of a group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.advantages.gae import ReturnScale, check_finite_returns, gae, group_advantages
from robo_rl.core.stateful import Stateful
from robo_rl.critic.embedded import embedded, embedding_critic
from robo_rl.critic.value import ValueCritic
from robo_rl.data.rollout import Rollout
from robo_rl.distributed.moments import global_count, global_mean, global_std, global_var
from robo_rl.optim.captured_loss import CaptureConfig, captured
from robo_rl.optim.minibatches import PADDING_SHARD, Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.optim.precision import PrecisionConfig, autocast
from robo_rl.optim.scalars import numbers
from robo_rl.policy.base import DenoisingPolicy


class Advantages(NamedTuple):
    """Advantages of the decisions of a rollout.

    Args:
        rollout: The rollout; decisions without an advantage are not ``valid`` in it.
        adv: (N,) advantages of the valid decisions.
        metrics: Name → number.
    """

    rollout: Rollout
    adv: Tensor
    metrics: dict[str, float]


def normalize_advantages(rollout: Rollout, worth: Tensor) -> Advantages:
    """Normalize values (T, B) of the valid decisions to mean 0 and std 1.

    A rollout with fewer than two valid decisions over all processes has no advantages.
    """
    adv = rollout.rows(worth)
    if global_count(len(adv)) < 2:
        return Advantages(replace(rollout, valid=torch.zeros_like(rollout.valid)), adv[:0], {})
    return Advantages(rollout, (adv - global_mean(adv)) / (global_std(adv) + 1e-8), {})


def pad_empty_rank(credit: Advantages) -> Advantages:
    """Give a process without advantages one padded decision, if another process has advantages.

    All processes then take part in the same collective operations. The padded decision has
    advantage 0 and adds no gradient.
    """
    rollout, adv, _ = credit
    others_have = global_count(len(adv)) > 0
    if len(adv) or not others_have:
        return credit
    valid, shard = (
        rollout.valid.clone(),
        torch.full_like(rollout.valid, PADDING_SHARD, dtype=torch.int64),
    )
    valid[0, 0] = True
    rollout = replace(rollout, valid=valid, shard=shard)
    return credit._replace(rollout=rollout, adv=adv.new_zeros(1))


class AdvantageEstimator(Stateful, ABC):
    """Computes the advantages of a rollout, and trains its own critic if it has one.

    Attributes:
        warmup_updates: Number of updates before the advantages train the actor.
    """

    warmup_updates: int = 0

    @abstractmethod
    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Return the advantages of a rollout."""

    def restart_episodes(self) -> None:
        """See ``Algorithm``; an estimator that keeps nothing of running episodes ignores it."""


class GaeConfig(PrecisionConfig, OptimizerConfig, CaptureConfig):
    """Settings of the value critic, its training, and λ.

    ``critic_minibatch`` counts decisions. The value 0 takes the actor's minibatch size, which
    counts sample units. The first ``warmup_updates`` updates train the critic alone.

    A low ``gae_lambda`` reduces the variance of advantages, but returns of a low λ consist mostly
    of the critic's own values and follow rewards slowly. A higher ``critic_lambda`` separates the
    two (decoupled GAE of VC-PPO, arXiv 2503.01491).
    """

    critic: ValueCritic.Config = ValueCritic.Config()
    """Size of the value critic."""
    critic_reads: Literal["state", "embedding"] = "state"
    """``state``: vectors of the env, ``critic.sees``; ``embedding``: that of the policy."""
    critic_lr: float = Field(default=1e-3, gt=0.0)
    """Learning rate of the critic."""
    critic_epochs: int = Field(default=4, ge=1)
    """Epochs of the critic over a rollout."""
    critic_minibatch: int = Field(default=0, ge=0)
    """Decisions of a critic minibatch; 0 takes the actor's minibatch size."""
    warmup_updates: int = Field(default=2, ge=0)
    """Updates at the start that train only the critic."""
    gae_lambda: float = Field(default=0.95, ge=0.0, le=1.0)
    """λ of generalised advantage estimation; 1 uses full returns, 0 uses one-step TD errors."""
    critic_lambda: float | None = Field(default=None, ge=0.0, le=1.0)
    """λ of the returns that the critic is fitted to; null takes ``gae_lambda``."""


class GaeEstimator(AdvantageEstimator):
    """Generalised advantage estimation with a value critic.

    The critic is fitted to the returns of a rollout after it has scored that rollout.

    Args:
        cfg: See ``GaeConfig``.
        policy: The policy; the critic reads its env's vectors, or its embedding.
        num_envs: B, for the running return scale.
        generator: Draws minibatches.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("critic", "optimizer", "scale")

    def __init__(
        self,
        cfg: GaeConfig,
        policy: DenoisingPolicy,
        num_envs: int,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.warmup_updates = cfg.warmup_updates
        critic = (
            embedding_critic(cfg.critic, policy)
            if cfg.critic_reads == "embedding"
            else ValueCritic(cfg.critic, policy.env_spec, policy.obs_horizon, policy.normalizer)
        )
        self.critic = critic.to(policy.normalizer.device)
        self.optimizer = ClippedOptimizer(
            self.critic.net.parameters(), cfg.critic_lr, cfg.grad_clip
        )
        self.scale = ReturnScale(num_envs)

    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Return normalized advantages, and fit the critic to the returns.

        The return scale is updated by the first B envs, those of the latest rollout.

        Raises:
            PluginError: A return is not finite.
        """
        read = self._as_read(rollout)
        adv, returns = self._advantages(read, self._scale_rewards(rollout))
        credit = pad_empty_rank(normalize_advantages(rollout, adv))
        fitted = replace(credit.rollout, obs=read.obs)
        metrics = self._fit(fitted, returns) if len(credit.adv) else {}
        metrics |= {"return_scale": self.scale.std, "skipped_steps": float(self.optimizer.skipped)}
        return credit._replace(metrics=metrics)

    def restart_episodes(self) -> None:
        """See ``Algorithm``: the running returns of the return scale."""
        self.scale.restart_episodes()

    def _as_read(self, rollout: Rollout) -> Rollout:
        """Return the rollout with the observations that the critic reads."""
        if self.cfg.critic_reads == "state":
            return rollout
        return replace(
            rollout,
            obs=embedded(self.policy, rollout.obs, 2),
            last_obs=embedded(self.policy, rollout.last_obs, 1),
            final_obs=embedded(self.policy, rollout.final_obs, 1),
        )

    def _scale_rewards(self, rollout: Rollout) -> Tensor:
        ends, fresh = rollout.terminated | rollout.truncated, len(self.scale.running)
        if rollout.rew.shape[1] % fresh:
            raise ValueError(f"a rollout of {rollout.rew.shape[1]} envs is no multiple of {fresh}")
        self.scale.update(rollout.rew[:, :fresh], rollout.discount[:, :fresh], ends[:, :fresh])
        return rollout.rew / self.scale.std

    @torch.no_grad()
    def _advantages(self, rollout: Rollout, rew: Tensor) -> tuple[Tensor, Tensor]:
        value = self._values(rollout.obs)
        next_value = torch.cat([value[1:], self.critic(rollout.last_obs)[None]])
        if len(rollout.ended):
            t, env = rollout.ended.T
            next_value[t, env] = self.critic(rollout.final_obs)
        of_lambda = partial(
            gae,
            rew,
            value,
            next_value,
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            valid=rollout.valid,
            discount=rollout.discount,
            log_ratio=rollout.policy_log_ratio,
        )
        adv, returns = of_lambda(lam=self.cfg.gae_lambda)
        if self.cfg.critic_lambda is not None:
            returns = of_lambda(lam=self.cfg.critic_lambda)[1]
        return adv, returns

    def _values(self, obs: dict[str, Tensor]) -> Tensor:
        steps, envs = next(iter(obs.values())).shape[:2]
        return self.critic({name: o.flatten(0, 1) for name, o in obs.items()}).view(steps, envs)

    def _fit(self, rollout: Rollout, returns: Tensor) -> dict[str, float]:
        obs = {name: rollout.rows(rollout.obs[name]) for name in self.critic.names}
        returns = rollout.rows(returns)
        with torch.no_grad():
            residual = returns - self.critic(obs)
        rows = self.cfg.critic_minibatch or self.cfg.minibatch
        passes = Minibatches(len(returns), rows, self.generator, rollout.shards)
        loss = captured(self.cfg, self.critic, partial(self._loss, obs, returns))
        for _ in range(self.cfg.critic_epochs):
            for pick, share in passes:
                self.optimizer.step(loss(pick)[0], share)
        unexplained = global_var(residual) / global_var(returns).clamp(min=1e-8)
        error, share = numbers([global_mean(residual.square()), unexplained])
        return {"value_loss": 0.5 * error, "explained_variance": 1.0 - share}

    def _loss(self, obs: dict[str, Tensor], returns: Tensor, pick: Tensor) -> tuple[Tensor]:
        with autocast(self.cfg.precision, self.critic):
            value = self.critic({name: o[pick] for name, o in obs.items()})
        return (0.5 * (value - returns[pick]).square().mean(),)


class GroupRelativeEstimator(AdvantageEstimator):
    """Group-relative advantages (GRPO): an episode is compared with episodes from the same start.

    All decisions of an episode have the same advantage, see ``gae.group_advantages``. The estimator
    has no critic and no state.

    Args:
        group_size: G.
    """

    def __init__(self, group_size: int) -> None:
        self.group_size = group_size

    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Return the advantages; groups whose returns do not differ are marked as not valid.

        Raises:
            PluginError: A reward is not finite.
        """
        check_finite_returns(rollout.rew)
        adv, alive = group_advantages(
            rollout.rew,
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            valid=rollout.valid,
            discount=rollout.discount,
            group_size=self.group_size,
        )
        block = replace(rollout, valid=alive)
        live = alive.any(0).unflatten(0, (-1, self.group_size)).any(1)
        metrics = {"nonzero_std_groups": float(global_mean(live.float()))}
        return pad_empty_rank(Advantages(block, block.rows(adv), metrics))
