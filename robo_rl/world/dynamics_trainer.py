"""Trains the dynamics ensemble: each member on a bootstrap resample of the episodes.

Each member keeps the weights with its lowest out-of-bag error (``optim.out_of_bag_selection``).

Shapes: M members, N rows, B rows of a batch, D elements of an observation with its history.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from robo_rl.core.stateful import Trainable
from robo_rl.data.transitions import mask_tail
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.out_of_bag_selection import OutOfBagBest, out_of_bag_mask
from robo_rl.world.dynamics import DynamicsEnsemble, flatten_obs

_WEIGHT_DECAY = 1e-4
_LOOKED_AT = 2048
"""Number of rows that estimate the out-of-bag error."""


class DynamicsTrainer(Trainable):
    """Trains a dynamics ensemble.

    Args:
        model: The ensemble.
        rows: All rows.
        counts: (M, N), count of each row's episode in each member's resample.
        generator: Draws batches.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("model", "optimizer", "best", "done")

    def __init__(
        self,
        model: DynamicsEnsemble,
        rows: Mapping[str, Tensor],
        counts: Tensor,
        generator: torch.Generator,
    ) -> None:
        self.model, self.rows, self.counts, self.generator = model, rows, counts, generator
        self.seen, self.done = flatten_obs(rows), 0
        self.decisions = rows["decision"].nonzero().flatten()
        cfg = model.cfg
        self.optimizer = ClippedOptimizer(model.parameters(), cfg.lr, cfg.grad_clip, _WEIGHT_DECAY)
        self.best = OutOfBagBest(model, model.members)
        picks = self._draw(_LOOKED_AT)
        self.test, self.unseen = self._batch(picks), out_of_bag_mask(counts[:, picks])

    def step(self) -> dict[str, float]:
        """Take one gradient step; returns the loss, and the out-of-bag error once it is known.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        cfg = self.model.cfg
        picks = self._draw(cfg.minibatch)
        loss = (self.counts[:, picks] * self.model.loss(*self._batch(picks))).sum(dim=0).mean()
        self.optimizer.step(loss)
        self.done += 1
        if self.done % cfg.eval_every == 0 or self.done == cfg.steps:
            self._look()
        found = {"loss": float(loss.detach())}
        return found | self.best.metrics()

    def finish(self) -> DynamicsEnsemble:
        """Return the ensemble with each member's best weights by out-of-bag error.

        Raises:
            DataError: A member never had a finite error.
        """
        self.best.restore("what follows a chunk")
        return self.model.eval()

    @torch.no_grad()
    def _look(self) -> None:
        self.best.update(
            (self.unseen * self.model.loss(*self.test)).sum(dim=1) / self.unseen.sum(dim=1)
        )

    def _draw(self, number: int) -> Tensor:
        drawn = torch.randint(len(self.decisions), (number,), generator=self.generator)
        return self.decisions[drawn]

    def _batch(self, picks: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Return rows with masked chunk tails, and their next observations."""
        batch = {name: column[picks] for name, column in self.rows.items()}
        batch["act"] = mask_tail(batch["act"], batch["num_exec"], self.generator)
        return batch, self.seen[batch["next"]]
