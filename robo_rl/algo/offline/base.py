"""Base classes of offline algorithms, which improve a policy on logged decisions."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from robo_rl.algo.base import Learner
from robo_rl.algo.offline_critics.base import OfflineCritics
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.core.errors import ConfigError
from robo_rl.core.stateful import Trainable
from robo_rl.data.replay import Replay
from robo_rl.policy.base import DenoisingPolicy


@dataclass(frozen=True)
class OfflineInputs:
    """Inputs of an offline algorithm.

    Args:
        policy: The initial policy; not changed.
        critics: Critics of the logged actions; not changed.
        replay: The logged decisions.
        steps: Total gradient steps, the length of the schedules.
        generator: Source of all random draws.
    """

    policy: DenoisingPolicy
    critics: OfflineCritics
    replay: Replay
    steps: int
    generator: torch.Generator


class OfflineAlgorithm(Learner, Trainable):
    """Improves a policy by gradient steps; built as ``Algorithm(cfg, inputs)``.

    Args:
        cfg: The algorithm's own ``Config``.
        inputs: See ``OfflineInputs``.

    Raises:
        ConfigError: ``check_policy`` refuses the policy.
    """

    def __init__(self, cfg: Any, inputs: OfflineInputs) -> None:
        self.check_policy(cfg, inputs.policy)
        self.inputs = inputs

    @property
    def replay(self) -> Replay:
        """The logged decisions."""
        return self.inputs.replay

    @property
    def generator(self) -> torch.Generator:
        """Source of all random draws."""
        return self.inputs.generator

    @property
    @abstractmethod
    def policy(self) -> DenoisingPolicy:
        """The improved policy, for evaluation."""


class SupervisedAlgorithm(OfflineAlgorithm):
    """An offline algorithm that trains its policy with a supervised loss.

    Args:
        cfg: The algorithm's own ``Config``.
        optim: Optimiser and weight averaging.
        inputs: See ``OfflineInputs``.
        policy: The trained policy; a copy of ``inputs.policy`` by default.
    """

    state_parts = ("trainer",)

    def __init__(
        self,
        cfg: Any,
        optim: SupervisedTrainer.Config,
        inputs: OfflineInputs,
        policy: DenoisingPolicy | None = None,
    ) -> None:
        super().__init__(cfg, inputs)
        trained = deepcopy(inputs.policy) if policy is None else policy
        self.trainer = SupervisedTrainer(optim, trained.train(), inputs.steps)

    @property
    def policy(self) -> DenoisingPolicy:
        """The policy with averaged weights."""
        return self.trainer.ema.module.eval()


def check_eval_is_deterministic(policy: DenoisingPolicy.Config, why: str) -> None:
    """Check that the evaluation is a deterministic map from noise to chunks.

    Args:
        policy: Settings of the policy.
        why: What the algorithm does with the map.

    Raises:
        ConfigError: The evaluation draws noise between its denoising steps.
    """
    if not policy.eval_is_deterministic:
        raise ConfigError(
            f"{why}, and the policy's evaluation draws noise on the way as well",
            where="policy.eval_eta",
            expected=0,
            found=getattr(policy, "eval_eta", None),
            hint="awr, parl and expo improve any policy",
        )
