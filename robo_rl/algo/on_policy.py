"""Shared part of on-policy algorithms: advantages of a rollout, and an actor update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.algo.advantages.factory import AdvantageConfig, make_advantage_estimator
from robo_rl.algo.base import Algorithm
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout
from robo_rl.optim.adaptive_lr import AdaptiveLr
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.policy.base import DenoisingPolicy


class ActorUpdate(Stateful, ABC):
    """Fits a policy to the advantages of a rollout.

    Attributes:
        policy: The exploring policy, changed in place.
        optimizer: The optimizer.
        rate: Adapts the optimizer's learning rate.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("policy", "optimizer", "rate")
    policy: DenoisingPolicy
    optimizer: ClippedOptimizer
    rate: AdaptiveLr

    @property
    def lr(self) -> float:
        """The current learning rate."""
        return self.optimizer.lr

    @abstractmethod
    def update(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        """Run epochs over a rollout.

        Args:
            rollout: Collected by ``policy``.
            adv: (N,) advantages of its valid decisions.

        Returns:
            Metrics.
        """

    def eval_policy(self) -> DenoisingPolicy:
        """The policy that is evaluated and saved."""
        return self.policy


class OnPolicy(Algorithm):
    """An advantage estimator and an actor.

    A rollback restores the estimator's critic with the actor, and repeats the part of the critic's
    warm-up that followed the restored state. The running returns of the return scale are restored
    as well; they restart at the next episode end.

    Args:
        cfg: See ``AdvantageConfig``.
        policy: Trained in place.
        num_envs: B, for the running return scale.
        generator: Draws minibatches.
        actor: Fits the policy.
    """

    learns_together: ClassVar[bool] = True
    actor_parts: ClassVar[tuple[str, ...]] = ("actor", "advantage_estimator", "warmup_left")
    state_parts: ClassVar[tuple[str, ...]] = actor_parts

    def __init__(
        self,
        cfg: AdvantageConfig,
        policy: DenoisingPolicy,
        num_envs: int,
        generator: torch.Generator,
        actor: ActorUpdate,
    ) -> None:
        super().__init__(policy, generator)
        self.actor, self.group_size = actor, cfg.group_size
        self.advantage_estimator = make_advantage_estimator(cfg, policy, num_envs, generator)
        self.warmup_left = self.advantage_estimator.warmup_updates

    @property
    def lr(self) -> float:
        """The current learning rate of the actor."""
        return self.actor.lr

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one rollout; returns metrics.

        Raises:
            PluginError: Rewards are not finite, the likelihood ratio is not 1 before the first
                step, or losses or gradients were not finite for long.
        """
        rollout, adv, metrics = self.advantage_estimator.compute_advantages(rollout)
        if not self.warmup_left and len(adv):
            metrics |= self._fit_actor(rollout, adv)
        self.warmup_left = max(self.warmup_left - 1, 0)
        self.updates += 1
        skipped = metrics.get("skipped_steps", 0.0) + self.actor.optimizer.skipped
        return metrics | {"lr": self.lr, "skipped_steps": float(skipped)}

    def eval_policy(self) -> DenoisingPolicy:
        """The policy that the actor update evaluates and saves."""
        return self.actor.eval_policy()

    def restart_episodes(self) -> None:
        """See ``Algorithm``."""
        self.advantage_estimator.restart_episodes()

    def rollback(self, state: Mapping[str, Any]) -> None:
        """Restore an earlier ``actor_state`` at half the learning rate.

        The bound of the learning rate then rises again with each update.
        """
        lr = self.lr
        self.load_states_of(self.actor_parts, state)
        self.actor.rate.halve_below(lr)

    def _fit_actor(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        return self.actor.update(rollout, adv)
