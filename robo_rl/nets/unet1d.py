"""A temporal U-Net over the action chunk, with FiLM conditioning.

Source: Chi et al. 2023, "Diffusion Policy", figure 2.

Shapes: B rows, H horizon, A act_dim, O observation features, C embedding width, W channels of a
level.
"""

from __future__ import annotations

from typing import Annotated, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.nets.base import ChunkNet, FourierFeatures, TimeEmbedding, dense


class Unet1d(ChunkNet):
    """U-Net with blocks scaled and shifted by the (time, observation) embedding.

    A horizon that the strides do not divide is padded at the end; the output is cut to it.

    Args:
        cfg: Channels of the levels, from the finest; each further level halves the time axis.
        horizon: H.
        act_dim: A.
        obs_features: O.
    """

    class Config(ConfigModel):
        """Channels per level, kernel size, groups of the norms, size of the time embedding."""

        channels: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(64, 128), min_length=1)
        """Channels of each level."""
        kernel_size: int = Field(default=5, ge=1)
        """Kernel size in actions, odd."""
        groups: int = Field(default=8, ge=1)
        """Groups of the group norms."""
        time_dim: int = Field(default=32, ge=2, multiple_of=2)
        """Size of the time embedding."""
        obs_frequencies: int = Field(default=0, ge=0, le=12)
        """Frequencies of the Fourier features of observations; 0 takes observations alone."""

        @model_validator(mode="after")
        def _sizes_agree(self) -> Self:
            if self.kernel_size % 2 == 0:
                raise ValueError(f"kernel_size {self.kernel_size}: expected an odd number")
            for width in self.channels:
                if width % self.groups:
                    raise ValueError(f"channels {width}: no multiple of groups {self.groups}")
            return self

    def __init__(self, cfg: Config, horizon: int, act_dim: int, obs_features: int) -> None:
        super().__init__()
        self.embed_dim = width = cfg.channels[-1]
        self.stride = 2 ** (len(cfg.channels) - 1)
        self.time = nn.Sequential(TimeEmbedding(cfg.time_dim), dense([cfg.time_dim, width, width]))
        self.fourier = FourierFeatures(cfg.obs_frequencies)
        self.from_obs = dense([self.fourier.size(obs_features), width, width])

        def block(fan_in: int, fan_out: int) -> FilmBlock:
            return FilmBlock(fan_in, fan_out, width, cfg.kernel_size, cfg.groups)

        levels = list(zip((act_dim, *cfg.channels[:-1]), cfg.channels, strict=True))
        self.down = nn.ModuleList(block(fan_in, fan_out) for fan_in, fan_out in levels)
        self.shrink = nn.ModuleList(nn.Conv1d(c, c, 3, 2, 1) for c in cfg.channels[:-1])
        self.middle = block(width, width)
        self.grow = nn.ModuleList(
            nn.ConvTranspose1d(wide, narrow, 4, 2, 1)
            for narrow, wide in zip(cfg.channels[:-1], cfg.channels[1:], strict=True)
        )
        self.up = nn.ModuleList(block(2 * c, c) for c in cfg.channels[:-1])
        self.out = nn.Conv1d(cfg.channels[0], act_dim, 1)

    def embed(self, features: Tensor) -> Tensor:
        """Map features (B, O) to an embedding (B, C)."""
        return self.from_obs(self.fourier(features))

    def forward(self, x: Tensor, t: Tensor, embedding: Tensor) -> Tensor:
        """Map chunk x (B, H, A), time t (B,), embedding (B, C) to (B, H, A)."""
        cond = self.time(t) + embedding
        horizon = x.shape[1]
        h = F.pad(x.transpose(1, 2), (0, -horizon % self.stride))
        skips: list[Tensor] = []
        for level, down in enumerate(self.down):
            h = down(h, cond)
            if level < len(self.shrink):
                skips.append(h)
                h = self.shrink[level](h)
        h = self.middle(h, cond)
        for level in reversed(range(len(self.up))):
            h = self.up[level](torch.cat([self.grow[level](h), skips[level]], dim=1), cond)
        return self.out(h)[:, :, :horizon].transpose(1, 2)


class FilmBlock(nn.Module):
    """Two convolutions with a FiLM layer between them and a skip: (B, W_in, H) → (B, W_out, H)."""

    def __init__(self, fan_in: int, fan_out: int, cond: int, kernel: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(fan_in, fan_out, kernel, padding=kernel // 2)
        self.second = nn.Conv1d(fan_out, fan_out, kernel, padding=kernel // 2)
        self.norm_first, self.norm_second = (nn.GroupNorm(groups, fan_out) for _ in range(2))
        self.film = nn.Linear(cond, 2 * fan_out)
        self.skip = nn.Conv1d(fan_in, fan_out, 1) if fan_in != fan_out else nn.Identity()

    def forward(self, h: Tensor, cond: Tensor) -> Tensor:
        """Apply to h (B, W_in, H) under cond (B, C)."""
        scale, shift = self.film(F.silu(cond))[:, :, None].chunk(2, dim=1)
        y = F.silu(self.norm_first(self.first(h)))
        y = F.silu(self.norm_second(self.second((1 + scale) * y + shift)))
        return y + self.skip(h)
