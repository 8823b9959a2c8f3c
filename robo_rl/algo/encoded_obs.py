"""Observations, and what a frozen encoder makes of them once.

Training encodes each observation many times, and the encoder of images or of a vision-language
model is most of the cost. With frozen weights its result never changes, so that training keeps it.
All networks that read the result then share the encoder's weights: those of one policy, its
averages, its reference and its one-step student.

Shapes: N decisions, R rows.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from robo_rl.core.errors import ConfigError
from robo_rl.nets.base import ChunkNet
from robo_rl.nets.embedding import Embedding, encode_in_parts, leaves, select_rows
from robo_rl.policy.base import DenoisingPolicy

_KERNELS_AT_ONCE, _BYTES_AT_ONCE = 16384, 2**30
"""Kernels that a pass without gradients computes at once, and the memory of their embeddings."""


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

    def encoder_result(self, policy: DenoisingPolicy) -> Embedding:
        """Return the encoder's result, N rows; gradients flow to an encoder that is trained."""
        if self.encoded is None:
            return policy.net.encoder(policy.features(self.items))
        return self.encoded

    def decode(self, policy: DenoisingPolicy, noise: Tensor) -> Tensor:
        """Return a policy's chunks (N, H, A) for noise (N, H, A), in normalised units."""
        if self.encoded is None:
            return policy.decode_normalized(self.items, noise)
        return policy.decode_normalized(self.items, noise, encoded=self.encoded)

    def select(self, rows: Tensor) -> EncodedObs:
        """Return the observations at rows (R,)."""
        items = {name: tensor[rows] for name, tensor in self.items.items()}
        return EncodedObs(items, None if self.encoded is None else select_rows(self.encoded, rows))

    @property
    def num_rows(self) -> int:
        """N."""
        return len(next(iter(self.items.values())))

    def kernels_at_once(self, policy: DenoisingPolicy) -> int:
        """Return how many kernels a pass without gradients computes at once, by their memory.

        The embedding of a vision-language model has some MB a row.
        """
        known = None if self.encoded is None else _row_bytes(self.encoded)
        size = encoded_bytes(policy) if known is None else known
        return max(1, min(_KERNELS_AT_ONCE, _BYTES_AT_ONCE // max(1, size)))

    def through(self, policy: DenoisingPolicy) -> EncodedObs:
        """Return the observations with the result of a policy's encoder."""
        found = encode_in_parts(self.items, lambda part: policy.net.encoder(policy.features(part)))
        return self._replace(encoded=found)


def demand_shared_encoder(net: ChunkNet, other: nn.Module, problem: str, expected: str) -> None:
    """Check that two networks have the same encoder, whose results both are given.

    Raises:
        ConfigError: They have not.
    """
    own, others = net.encoder.state_dict(), cast(ChunkNet, other).encoder.state_dict()
    if own.keys() != others.keys() or any(not torch.equal(own[name], others[name]) for name in own):
        raise ConfigError(problem, where="freeze_encoder", expected=expected)


@torch.no_grad()
def encoded_bytes(policy: DenoisingPolicy) -> int:
    """Return the size of what a policy's encoder makes of one observation."""
    items, steps = policy.obs_spec.items, policy.obs_horizon
    obs = {
        name: torch.zeros(
            (1, steps, *spec.shape), dtype=getattr(torch, spec.dtype), device=policy.device
        )
        for name, spec in items.items()
    }
    return _row_bytes(policy.net.encoder(policy.features(obs)))


def _row_bytes(embedding: Embedding) -> int:
    return sum(leaf[0].numel() * leaf.element_size() for leaf in leaves(embedding))
