"""The interface of denoising networks, and their time embedding.

Shapes: B rows, H horizon, A act_dim, O observation features, C embedding width.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robo_rl.nets.embedding import Embedding
from robo_rl.nets.encoders.base import ObsEncoder, ObsFeatures


class ChunkNet(nn.Module, ABC):
    """A network over noisy action chunks, conditioned on an observation embedding.

    ``encode`` runs once per observation, ``forward`` once per denoising step. Build with
    ``Net(cfg, horizon, act_dim, obs_features)``; ``embed_dim`` is C, the
    width of an embedding's ``summary``. The policy sets ``encoder``,
    whose weights are those of the network: copies, averages and exports of the network hold them.
    """

    embed_dim: int
    encoder: ObsEncoder
    reads_vectors: ClassVar[bool] = True
    """Whether actions depend on the vectors that an encoder joins to a prefix."""

    def encode(self, features: ObsFeatures) -> Embedding:
        """Map an observation to an embedding."""
        return self.embed(self.encoder(features))

    def summary(self, embedding: Embedding) -> Tensor:
        """Return a vector (B, C) of an embedding, for heads that read no tree."""
        return embedding

    @abstractmethod
    def embed(self, features: Any) -> Embedding:
        """Map what the encoder returns, features (B, O) as a rule, to an embedding."""

    @abstractmethod
    def forward(self, x: Tensor, t: Tensor, embedding: Embedding) -> Tensor:
        """Map chunk x (B, H, A), time t (B,) in [0, 1], and an embedding to (B, H, A)."""


class TimeEmbedding(nn.Module):
    """Sinusoidal features of t in [0, 1]: t (B,) → (B, dim) (Vaswani et al. 2017, section 3.5)."""

    frequencies: Tensor

    def __init__(self, dim: int, max_period: float = 1000.0) -> None:
        super().__init__()
        half = dim // 2
        exponent = torch.arange(half, dtype=torch.float32) / max(half - 1, 1)
        self.register_buffer("frequencies", max_period ** (1.0 - exponent), persistent=False)

    def forward(self, t: Tensor) -> Tensor:
        """Return features (B, dim) of t (B,)."""
        angle = t[:, None] * self.frequencies.to(t.dtype) * (2.0 * math.pi / 1000.0)
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class FourierFeatures(nn.Module):
    """Adds sines and cosines of observation features: features (B, O) → (B, size(O)).

    γ(x) = (x, sin(2^l·π·x), cos(2^l·π·x)) for l = −1 … L−2. An MLP learns slowly how actions change
    over small distances. The high frequencies make such changes linear (Tancik et al. 2020, arXiv
    2006.10739; Mildenhall et al. 2020, arXiv 2003.08934, eq. 4). The lowest frequency has a period
    of 4, the range of a normalised feature beyond its data.

    Args:
        frequencies: L; 0 leaves the features unchanged.
    """

    def __init__(self, frequencies: int) -> None:
        super().__init__()
        self._rates = [math.pi * 2.0 ** (level - 1) for level in range(frequencies)]

    def size(self, features: int) -> int:
        """Return the number of features after the expansion of ``features`` features."""
        return features * (1 + 2 * len(self._rates))

    def forward(self, features: Tensor) -> Tensor:
        """Expand features (B, O)."""
        waves = [wave(rate * features) for rate in self._rates for wave in (torch.sin, torch.cos)]
        return torch.cat([features, *waves], dim=-1) if waves else features


def dense(sizes: list[int], activation: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    """Linear layers with ``activation`` between them: sizes[0] → … → sizes[-1]."""
    layers: list[nn.Module] = []
    for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        layers += [nn.Linear(fan_in, fan_out)]
        if i < len(sizes) - 2:
            layers += [activation()]
    return nn.Sequential(*layers)
