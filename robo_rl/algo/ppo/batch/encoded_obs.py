"""Observations of a rollout, and what a frozen encoder makes of them, once an update.

An update encodes each observation once an epoch, and the encoder of images or of a vision-language
model is most of the cost. With frozen weights its result never changes, so that the update keeps
it. Networks of one policy, its averages and its reference then share the encoder's weights.

Shapes: N decisions, R rows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.ppo.ratio_units import ROWS_AT_ONCE
from robo_rl.nets.embedding import Embedding, join_rows, select_rows
from robo_rl.policy.base import DenoisingPolicy


class EncodedObs(NamedTuple):
    """Observations of N decisions.

    Args:
        items: Name → (N, To, …).
        encoded: The encoder's result, N rows; None if its weights are trained.
    """

    items: dict[str, Tensor]
    encoded: Embedding = None

    def encode(self, policy: DenoisingPolicy, rows: Tensor | slice) -> Embedding:
        """Return a policy's embedding of some rows."""
        if self.encoded is None:
            return policy.encode({name: tensor[rows] for name, tensor in self.items.items()})
        if isinstance(rows, slice):
            rows = torch.arange(*rows.indices(self.num_rows), device=policy.device)
        return policy.net.embed(select_rows(self.encoded, rows))

    def select(self, rows: Tensor) -> EncodedObs:
        """Return the observations at rows (R,)."""
        items = {name: tensor[rows] for name, tensor in self.items.items()}
        return EncodedObs(items, None if self.encoded is None else select_rows(self.encoded, rows))

    @property
    def num_rows(self) -> int:
        """N."""
        return len(next(iter(self.items.values())))

    @torch.no_grad()
    def through(self, policy: DenoisingPolicy) -> EncodedObs:
        """Return the observations with the result of a policy's encoder."""
        found: list[Embedding] = []
        for start in range(0, self.num_rows, ROWS_AT_ONCE):
            part = {k: v[start : start + ROWS_AT_ONCE] for k, v in self.items.items()}
            found.append(policy.net.encoder(policy.features(part)))
        return self._replace(encoded=join_rows(found))
