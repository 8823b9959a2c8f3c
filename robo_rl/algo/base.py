"""What a reinforcement-learning algorithm is to the loop that drives it.

The loop in ``train`` collects a rollout with the exploring policy, hands it over, and starts again;
whether the rollout is then scored (PPO), kept (off-policy) or noised anew (NFT) is the algorithm's
affair. Built with ``Algo(cfg, policy, num_envs, generator)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy


class Learner(Stateful):
    """What every algorithm is, online or offline: built from a config, resumable."""

    @classmethod
    def check_policy(cls, cfg: Any, policy: DenoisingPolicy) -> None:
        """Raise ConfigError for a policy that it does not take; takes every one by default."""


class Algorithm(Learner, ABC):
    """An online algorithm: learns from rollouts and trains its policy in place.

    ``check_policy`` is asked about an untrained stand-in, whose observations and actions are one
    number each: what an algorithm demands must not depend on what is observed.

    Args:
        policy: The exploring policy.
        generator: Draws the minibatches; the loop keeps its state with the checkpoints.

    Attributes:
        updates: Rollouts learnt from so far.
        single_step: Whether chains are drawn with one stochastic step each.
        group_size: Episodes from each start; above 1 a rollout is one whole episode in every env.
        learns_together: Whether losses and statistics are those of all processes, see
            ``robo_rl.distributed.process_group``.
        takes_demonstrations: Whether ``add_demonstrations`` is called where there is a dataset.
        needs_demonstrations: Settings that ask for a dataset, by their names in the config.
        needs_critics: Whether it begins with critics that stage ``offline`` left.
        actor_parts: Those of ``state_parts`` that a rollback restores: the policy, and what leads
            it.
    """

    single_step: bool = False
    group_size: int = 1
    learns_together: ClassVar[bool] = False
    takes_demonstrations: ClassVar[bool] = False
    needs_critics: bool = False
    state_parts: ClassVar[tuple[str, ...]] = ("updates",)
    actor_parts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        self.policy, self.generator = policy, generator
        self.updates = 0

    @property
    def needs_demonstrations(self) -> tuple[str, ...]:
        """See the class; none by default."""
        return ()

    @abstractmethod
    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one rollout; returns metrics, each a number."""

    @abstractmethod
    def rollback(self, state: Mapping[str, Any]) -> None:
        """Return to an earlier ``actor_state`` and continue with smaller steps."""

    def actor_state(self) -> dict[str, Any]:
        """State of ``actor_parts``, as nested dicts of tensors and numbers."""
        return self.states_of(self.actor_parts)

    def eval_policy(self) -> DenoisingPolicy:
        """The policy that is eval_policy and kept; the exploring one by default."""
        return self.policy

    def add_demonstrations(self, transitions: dict[str, Tensor]) -> None:
        """Take transitions of the dataset, as ``data.replay`` lays them out; unused by default."""

    def critic_weights(self) -> Mapping[str, Tensor]:
        """The weights that ``warm_start_critics`` replaces; none by default."""
        return {}

    def warm_start_critics(self, weights: Mapping[str, Tensor]) -> None:
        """Begin with the weights of critics of the same sizes as its own.

        Raises:
            ConfigError: It has no critics that could.
        """
        del weights
        raise ConfigError(f"algorithm '{type(self).__name__}' takes no critics from data")
