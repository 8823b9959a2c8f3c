"""What a reinforcement-learning algorithm is to the loop that drives it.

The loop in ``train`` collects a block of decisions with the exploring policy, hands it over, and
starts again; whether the block is then scored (PPO), kept (off-policy) or noised anew (NFT) is
the algorithm's affair. Built with ``Algo(cfg, policy, num_envs, generator)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from robo_rl.core.stateful import Stateful
from robo_rl.critic.q import QCritic
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy


class Learner(Stateful):
    """What every algorithm is, online or offline: built from a config, resumable."""

    @classmethod
    def check_policy(cls, cfg: Any, policy: DenoisingPolicy) -> None:
        """Raise ConfigError for a policy that it does not take; takes every one by default."""


class Algorithm(Protocol):
    """Learns from blocks of decisions; trains its policy in place.

    Args:
        updates: Blocks learnt from so far.
        one_step: Whether chains are to be drawn with one stochastic step each.
        generator: Draws the minibatches; its state is kept with the checkpoints.
    """

    updates: int
    single_step: bool
    generator: torch.Generator

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one block; returns metrics, each a number."""
        ...

    def actor_state(self) -> dict[str, Any]:
        """What makes the policy act as it does, as nested dicts of tensors and numbers."""
        ...

    def rollback(self, state: dict[str, Any]) -> None:
        """Return to an earlier ``actor_state`` and go on from there with smaller steps."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, as nested dicts of tensors and numbers."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        ...


@runtime_checkable
class Demanding(Protocol):
    """An algorithm's class that does not take every policy, and says so before there is data.

    It is asked about an untrained stand-in, whose observations and actions are one number each:
    what it demands is not to depend on what is observed.
    """

    @staticmethod
    def check_policy(cfg: Any, policy: DenoisingPolicy) -> None:
        """Raise ConfigError for one that it does not take."""
        ...


@runtime_checkable
class LearnsFromGroups(Protocol):
    """An algorithm that may want blocks of whole episodes, several from each start.

    Args:
        group_size: How many; 1 where blocks go on from wherever the last one ended.
    """

    group_size: int


@runtime_checkable
class LearnsTogether(Protocol):
    """An algorithm whose losses and statistics are those of all processes.

    See ``robo_rl.distributed.process_group``.
    """

    learns_together: ClassVar[bool]


@runtime_checkable
class JudgesAnother(Protocol):
    """An algorithm whose exploring policy is not the one that is to be judged and kept."""

    def eval_policy(self) -> DenoisingPolicy:
        """The policy that is."""
        ...


@runtime_checkable
class LearnsFromDemonstrations(Protocol):
    """An algorithm that also takes transitions from the dataset the policy was cloned from."""

    def add_demonstrations(self, transitions: dict[str, Tensor]) -> None:
        """Take in transitions of whole chunks, as ``data.replay`` lays them out."""
        ...


@runtime_checkable
class NeedsDemonstrations(Protocol):
    """An algorithm of which settings may ask for a dataset.

    Args:
        needs_demonstrations: Those that do, by their names in its config.
    """

    needs_demonstrations: tuple[str, ...]


@runtime_checkable
class LearnsFromCritics(Protocol):
    """An algorithm that may begin with critics that learnt from data.

    Args:
        inherits: Whether it wants to.
        critic: Its own.
    """

    warm_starts_critics: bool
    critic: QCritic

    def warm_start_critics(self, weights: Mapping[str, Tensor]) -> None:
        """Take over those of critics of its own sizes."""
        ...
