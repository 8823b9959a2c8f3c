"""PPO on denoising chains; it never learns which policy family it trains.

Sources: Schulman et al. 2017 (1707.06347); DPPO (2409.00588) for the denoising discount; pi_RL
(2510.25889). What is compared, what holds it and what is added: ``objective``; who credits:
``creditor``; epochs, step size and averages: ``actor_fit``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from robo_rl.algo.advantages.factory import AdvantageConfig, make_advantage_estimator
from robo_rl.algo.ppo import objective
from robo_rl.algo.ppo.actor_update import ActorConfig, PpoActor
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy


class Ppo:
    """An actor and who credits it.

    Args:
        cfg: See Config.
        policy: Trained in place.
        num_envs: B, for the running return scale.
        generator: Draws the minibatches.

    Raises:
        ConfigError: The policy does not offer what the settings ask for.
    """

    class Config(ActorConfig, AdvantageConfig):
        """Hyper-parameters; see ``ObjectiveConfig``, ``ActorConfig`` and ``AdvantageConfig``."""

    learns_together: ClassVar[bool] = True

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.group_size = cfg.group_size
        self.single_step = cfg.ratio is RatioMode.SINGLE_STEP
        self.advantage_estimator = make_advantage_estimator(cfg, policy, num_envs, generator)
        self.actor = PpoActor(cfg, policy, generator)
        self.updates = 0

    @staticmethod
    def check_policy(cfg: Config, policy: DenoisingPolicy) -> None:
        """See ``Demanding``."""
        objective.check_policy_supports(cfg, policy)

    @property
    def lr(self) -> float:
        """The actor's learning rate as it stands."""
        return self.actor.lr

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one block; returns metrics.

        Raises:
            PluginError: Rewards are not finite, what was drawn is not scored alike, or losses or
                gradients were not finite for long.
        """
        rollout, adv, metrics = self.advantage_estimator.compute_advantages(rollout)
        if self.updates >= self.advantage_estimator.warmup_updates and len(adv):
            metrics |= self.actor.update(rollout, adv)
        self.updates += 1
        skipped = metrics.get("skipped_steps", 0.0) + self.actor.optimizer.skipped
        return metrics | {"lr": self.lr, "skipped_steps": float(skipped)}

    def eval_policy(self) -> DenoisingPolicy:
        """The policy that is to be judged and kept."""
        return self.actor.eval_policy()

    def actor_state(self) -> dict[str, Any]:
        """Policy, its optimiser, and averages of its weights."""
        return self.actor.state_dict()

    def rollback(self, state: dict[str, Any]) -> None:
        """Return to an earlier ``actor_state``, at half of the present rate, slowly more again."""
        lr = self.lr
        self.actor.load_state_dict(state)
        self.actor.rate.halve_below(lr)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, as nested dicts of tensors and numbers."""
        rest = {"updates": self.updates, "ceiling": self.actor.rate.ceiling}
        return self.actor_state() | self.advantage_estimator.state_dict() | rest

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.actor.load_state_dict(state)
        self.advantage_estimator.load_state_dict(state)
        self.updates, self.actor.rate.ceiling = state["updates"], state["ceiling"]
