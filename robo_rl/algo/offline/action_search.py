"""Offline algorithms that search for better chunks than the policy's own and clone these.

The result is a policy of the same family: the algorithm takes every policy that can be cloned. The
search itself is a subclass's ``find``.

Shapes: N rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from robo_rl.algo.offline.base import OfflineInputs, SupervisedAlgorithm
from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.data.transitions import Transitions
from robo_rl.optim.scalars import read


class ActionSearch(SupervisedAlgorithm):
    """Clones better chunks at the data's states.

    Args:
        cfg: The algorithm's own ``Config``.
        optim: Of cloning.
        minibatch: N.
        inputs: See ``OfflineInputs``.
    """

    def __init__(
        self, cfg: Any, optim: SupervisedTrainer.Config, minibatch: int, inputs: OfflineInputs
    ) -> None:
        super().__init__(cfg, optim, inputs)
        self.minibatch = minibatch

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
