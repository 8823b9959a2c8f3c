"""A small vision transformer over patches.

Source: Dosovitskiy et al. 2021 (arXiv 2010.11929), figure 1 and eq. 1 to 4, with a convolutional
stem in place of the linear patch embedding (Xiao et al. 2021, arXiv 2106.14881) as in DPPO (Ren et
al. 2024, arXiv 2409.00588, appendix). The tokens are projected together, so that places stay apart.

Shapes: N images, P patches, C channels of a token, h heads.
"""

from __future__ import annotations

from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ImageEncoder

TOKEN_FEATURES = 8
"""Features that each token contributes to the projection."""


class VitEncoder(ImageEncoder):
    """Transformer blocks over the patches of each camera, and a projection of all tokens.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step.
        obs_horizon: To.

    Raises:
        ConfigError: A side of an image is no multiple of the patch.
    """

    class Config(ConfigModel):
        """Patch, channels, blocks and heads, width of the features."""

        patch: int = Field(default=8, ge=4, multiple_of=2)
        """Side of a patch, in pixels."""
        channels: int = Field(default=192, ge=8)
        """Channels of a token."""
        depth: int = Field(default=4, ge=1)
        """Transformer blocks."""
        heads: int = Field(default=4, ge=1)
        """Heads of an attention."""
        width: int = Field(default=128, ge=1)
        """Features of a frame of a camera."""
        shared: bool = False
        """Whether all cameras share the weights."""

        @model_validator(mode="after")
        def _heads_divide(self) -> Self:
            if self.channels % self.heads:
                raise ValueError(f"channels {self.channels}: no multiple of heads {self.heads}")
            return self

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        super().__init__(cfg, obs_spec, obs_horizon)

    def backbone(self, cfg: Config, shape: tuple[int, int, int]) -> nn.Module:
        """Return a module from images (N, C, h, w) in [-1, 1] to (N, width).

        Raises:
            ConfigError: A side is no multiple of the patch.
        """
        if shape[1] % cfg.patch or shape[2] % cfg.patch:
            raise ConfigError(
                "the encoder 'vit' cuts images into whole patches",
                where="policy.encoder.patch",
                expected=f"sides that are multiples of {cfg.patch} pixels",
                found=f"{shape[2]} × {shape[1]}",
            )
        patches = (shape[1] // cfg.patch) * (shape[2] // cfg.patch)
        return nn.Sequential(
            PatchTokens(shape[0], cfg.channels, cfg.patch, patches),
            *(AttentionBlock(cfg.channels, cfg.heads) for _ in range(cfg.depth)),
            nn.LayerNorm(cfg.channels),
            nn.Linear(cfg.channels, TOKEN_FEATURES),
            nn.Flatten(),
            nn.Linear(patches * TOKEN_FEATURES, cfg.width),
            nn.LayerNorm(cfg.width),
        )


class PatchTokens(nn.Module):
    """Two convolutions and learnt places: images (N, C_in, h, w) → tokens (N, P, C)."""

    def __init__(self, fan_in: int, channels: int, patch: int, patches: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(fan_in, channels, patch // 2, patch // 2),
            nn.GELU(),
            nn.Conv2d(channels, channels, 2, 2),
        )
        self.places = nn.Parameter(0.02 * torch.randn(1, patches, channels))

    def forward(self, images: Tensor) -> Tensor:
        """Return the tokens of images."""
        return self.stem(images).flatten(2).transpose(1, 2) + self.places


class AttentionBlock(nn.Module):
    """Attention and an MLP, each normalised first and with a skip: (N, P, C) → (N, P, C)."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = (nn.LayerNorm(channels) for _ in range(2))
        self.qkv = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Apply to tokens (N, P, C)."""
        qkv = self.qkv(self.norm_attention(tokens)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (N, h, P, C/h)
        seen = F.scaled_dot_product_attention(q, k, v)
        tokens = tokens + self.out(seen.transpose(1, 2).flatten(2))
        return tokens + self.mlp(self.norm_mlp(tokens))
