"""The interface between a reinforcement-learning algorithm and the training loop.

The loop in ``train`` collects a rollout with the exploring policy, passes it to the algorithm, and
repeats. The algorithm decides how it uses the rollout: likelihood ratios (PPO), a replay buffer
(off-policy) or new noise (NFT). Constructor: ``Algo(cfg, policy, num_envs, generator)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout
from robo_rl.policy.base import DenoisingPolicy


class Learner(Stateful):
    """Base class of all algorithms, online and offline: built from a config, with saved state."""

    @classmethod
    def check_policy(cls, cfg: Any, policy: DenoisingPolicy) -> None:
        """Raise ConfigError if the algorithm cannot train the policy; accepts any by default."""

    @classmethod
    def check_resources(cls, cfg: Any, policy: DenoisingPolicy, folder: Path) -> None:
        """Raise DeviceError if what the algorithm keeps does not fit memory, or ``folder``'s disk.

        Memory is the processor's.
        """


class Algorithm(Learner, ABC):
    """An online algorithm: learns from rollouts and trains its policy in place.

    ``check_policy`` is called with an untrained placeholder policy. Its observations and actions
    have one element each, so a check must not depend on the observation or action spec.

    Args:
        policy: The exploring policy.
        generator: Draws the minibatches; the loop saves its state with the checkpoints.

    Attributes:
        updates: Number of rollouts learnt from.
        single_step: Whether each chain is drawn with one stochastic step.
        group_size: Episodes from each start; above 1 a rollout is one whole episode in every env.
        learns_together: Whether losses and statistics are reduced over all processes, see
            ``robo_rl.distributed.process_group``.
        takes_demonstrations: Whether ``add_demonstrations`` is called if there is a dataset.
        needs_demonstrations: Names of the config settings that need a dataset.
        needs_critics: Whether training starts from the critics of stage ``offline``.
        actor_parts: Names in ``state_parts`` that a rollback restores: the policy and the parts
            that drive its update, such as optimisers and critics.
    """

    single_step: bool = False
    group_size: int = 1
    learns_together: ClassVar[bool] = False
    takes_demonstrations: bool = False
    needs_critics: bool = False
    state_parts: ClassVar[tuple[str, ...]] = ("updates",)
    actor_parts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        self.policy, self.generator = policy, generator
        self.updates = 0

    @classmethod
    def learns_from_dataset(cls, cfg: Any) -> bool:
        """Return whether demonstrations are taken under these settings.

        Args:
            cfg: The algorithm's own ``Config``.
        """
        del cfg
        return cls.takes_demonstrations

    @classmethod
    def check_processes(cls, cfg: Any, count: int) -> None:
        """Check that so many processes can learn together under these settings.

        Args:
            cfg: The algorithm's own ``Config``.
            count: Number of processes.

        Raises:
            ConfigError: They cannot.
        """
        del cfg
        if count > 1 and not cls.learns_together:
            raise ConfigError(
                f"{cls.__name__} does not learn in several processes",
                where="launch",
                expected="one process",
                found=f"{count} processes",
            )

    @property
    def needs_demonstrations(self) -> tuple[str, ...]:
        """Names of the config settings that need a dataset; none by default."""
        return ()

    @abstractmethod
    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one rollout; returns metrics, each a number."""

    @abstractmethod
    def rollback(self, state: Mapping[str, Any]) -> None:
        """Restore an earlier ``actor_state`` and continue with a lower learning rate."""

    def actor_state(self) -> dict[str, Any]:
        """Return the state of ``actor_parts``, as nested dicts of tensors and numbers."""
        return self.states_of(self.actor_parts)

    def eval_policy(self) -> DenoisingPolicy:
        """The policy that is evaluated and saved; the exploring policy by default."""
        return self.policy

    def restart_episodes(self) -> None:
        """Forget what accumulates over running episodes; ignored by default.

        Called after a resume whose envs begin new episodes.
        """

    def add_demonstrations(self, transitions: dict[str, Tensor]) -> None:
        """Add dataset transitions in the layout of ``data.replay``; ignored by default."""

    def check_demonstrations(self) -> None:
        """Raise DataError if the added demonstrations do not suffice; called after the last."""

    def keep_files_in(self, folder: Path) -> None:
        """Keep large data in files of the algorithm's own folder; ignored by default.

        Called before demonstrations are added and before a checkpoint is loaded. Files of a
        checkpoint are found in the same folder.
        """

    def critic_weights(self) -> Mapping[str, Tensor]:
        """The weights that ``warm_start_critics`` replaces; none by default."""
        return {}

    def warm_start_critics(self, weights: Mapping[str, Tensor]) -> None:
        """Load critic weights of the same sizes.

        Raises:
            ConfigError: The algorithm has no critics to warm-start.
        """
        del weights
        raise ConfigError(f"algorithm '{type(self).__name__}' takes no critics from data")
