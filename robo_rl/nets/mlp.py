"""The default network: an MLP over the flattened chunk.

Shapes: B rows, H horizon, A act_dim, O observation features, C embedding width.
"""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.nets.base import ChunkNet, FourierFeatures, TimeEmbedding, dense


class ChunkMlp(ChunkNet):
    """Residual MLP on (chunk, time, observation).

    The first layer is a sum of three linear maps, so the observation's part is computed once per
    chain.

    Args:
        cfg: See Config.
        horizon: H.
        act_dim: A.
        obs_features: O.
    """

    class Config(ConfigModel):
        """Width and number of the hidden layers, time embedding, and Fourier features."""

        width: int = Field(default=256, ge=1)
        """Width of the hidden layers."""
        depth: int = Field(default=2, ge=0)
        """Number of hidden layers after the first."""
        time_dim: int = Field(default=32, ge=2, multiple_of=2)
        """Size of the time embedding."""
        obs_frequencies: int = Field(default=0, ge=0, le=12)
        """Frequencies of the Fourier features of observations; 0 takes observations alone."""

    def __init__(self, cfg: Config, horizon: int, act_dim: int, obs_features: int) -> None:
        super().__init__()
        self.embed_dim = cfg.width
        self.time = TimeEmbedding(cfg.time_dim)
        self.fourier = FourierFeatures(cfg.obs_frequencies)
        self.from_obs = dense([self.fourier.size(obs_features), cfg.width, cfg.width])
        self.from_chunk = nn.Linear(horizon * act_dim, cfg.width, bias=False)
        self.from_time = nn.Linear(cfg.time_dim, cfg.width, bias=False)
        self.blocks = nn.ModuleList(dense([cfg.width, cfg.width]) for _ in range(cfg.depth))
        self.activation = nn.SiLU()
        self.out = nn.Linear(cfg.width, horizon * act_dim)

    def embed(self, features: Tensor) -> Tensor:
        """Map features (B, O) to an embedding (B, C)."""
        return self.from_obs(self.fourier(features))

    def forward(self, x: Tensor, t: Tensor, embedding: Tensor) -> Tensor:
        """Map chunk x (B, H, A), time t (B,), embedding (B, C) to (B, H, A)."""
        h = self.from_chunk(x.flatten(1)) + self.from_time(self.time(t)) + embedding
        for block in self.blocks:
            h = h + block(self.activation(h))
        return self.out(self.activation(h)).view_as(x)
