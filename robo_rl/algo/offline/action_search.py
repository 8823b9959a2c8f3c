"""Offline algorithms that search for better chunks than the policy's, and clone them.

The result is a policy of the same family, so the algorithm takes every policy that can be cloned. A
subclass implements ``search``.

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
    """Clones better chunks at the observations of the data.

    Args:
        cfg: The algorithm's own ``Config``.
        optim: Optimiser and weight averaging for cloning.
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
        """Return better chunks (N, H, A) in network units for a batch, and scalar metrics.

        Parts with parameters, such as critics, take their gradient step here.
        """

    def step(self) -> dict[str, float]:
        """Take one gradient step; returns the loss and the metrics of the search."""
        batch = self.replay.sample(self.minibatch, self.generator)
        best, figures = self.search(batch)
        policy = self.trainer.policy
        loss = policy.loss(batch.obs, policy.to_env(batch.obs, best), self.generator)
        return read({"loss": self.trainer.step(loss), **figures})
