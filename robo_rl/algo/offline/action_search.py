"""Improvers that look for better chunks than a policy's own, and have it learn to make them.

What comes of it is a policy of the family that went in: nothing is asked of it but that it can be
cloned, whatever looks for the chunks. A way to look is a subclass's ``find``.

Shapes: N rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.core.errors import ConfigError
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.optim.scalars import read
from robo_rl.policy.base import DenoisingPolicy


class ActionSearch(ABC):
    """Clones better chunks at the data's states; an ``OfflineAlgorithm`` once it has its ``Config``.

    Args:
        optim: Of cloning.
        minibatch: N.
        policy: Where it begins, and what draws; stays as it is.
        replay: The data.
        steps: Length of the schedule.
        generator: Draws batches, chunks, times and noise.
    """

    def __init__(
        self,
        optim: SupervisedTrainer.Config,
        minibatch: int,
        policy: DenoisingPolicy,
        replay: Replay,
        *,
        steps: int,
        generator: torch.Generator,
    ) -> None:
        self.minibatch, self.replay, self.generator = minibatch, replay, generator
        self.behaviour_policy = policy
        self.trainer = SupervisedTrainer(optim, deepcopy(policy).train(), steps)

    @property
    def policy(self) -> DenoisingPolicy:
        """What came of it: the averaged weights."""
        return self.trainer.ema.module.eval()

    @abstractmethod
    def search(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Better chunks (N, H, A) in network units at a batch's states, and figures of the search.

        What the search itself learns it learns here.
        """

    def step(self) -> dict[str, float]:
        """One gradient step; returns the loss, and the figures of the search."""
        batch = self.replay.sample(self.minibatch, self.generator)
        best, figures = self.search(batch)
        policy = self.trainer.policy
        loss = policy.loss(batch.obs, policy.to_env(best), self.generator)
        return read({"loss": self.trainer.step(loss), **figures})

    def state_dict(self) -> dict[str, Any]:
        """For checkpoints."""
        return self.trainer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self.trainer.load_state_dict(state)


def check_eval_is_deterministic(policy: DenoisingPolicy.Config) -> None:
    """Of improvers to whom a policy is a map from noise to chunks.

    Raises:
        ConfigError: Its evaluation draws noise on the way as well.
    """
    if not policy.eval_is_deterministic:
        raise ConfigError(
            "its noise is to be chosen, and its evaluation draws some on the way as well",
            where="policy.eval_eta",
            expected=0,
            found=getattr(policy, "eval_eta", None),
            hint="awr, parl and expo improve any policy",
        )
