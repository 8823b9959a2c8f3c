"""A pretrained vision transformer that stays as it is, and a projection that is learnt.

Source: Oquab et al. 2024 (DINOv2, arXiv 2304.07193), Zhai et al. 2023 (SigLIP, arXiv 2303.15343).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ImageEncoder
from robo_rl.nets.encoders.pretrained import PretrainedVit

CHANNELS = 32
"""Channels of a place after the first projection."""


class FrozenEncoder(ImageEncoder):
    """One frozen transformer for all cameras, and a learnt projection for each.

    The features of a frame are computed once while they are in memory. Augmented frames are new
    frames. Checkpoints and bundles hold the transformer's weights.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step.
        obs_horizon: To.

    Raises:
        ConfigError: The folder is no vision transformer, or its patches do not fit the settings.
        DeviceError: The extra ``pretrained`` is not installed.
    """

    caches: ClassVar[bool] = True

    class Config(ConfigModel):
        """Folder of the transformer, size of its images, places, cache, width of the features."""

        folder: Path
        """Local folder with ``config.json``, ``preprocessor_config.json`` and safetensors."""
        side: int | None = Field(default=None, ge=1)
        """Side of the square that frames are resized to, in pixels; that of the model if null."""
        grid: int = Field(default=4, ge=1)
        """Places along a side over which the tokens are averaged."""
        cached_frames: int = Field(default=50_000, ge=0)
        """Frames whose features stay in memory, as float16."""
        width: int = Field(default=128, ge=1)
        """Features of a frame of a camera."""
        shared: Literal[False] = False
        """The projection is each camera's own."""

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        trunk = PretrainedVit(cfg.folder.expanduser(), cfg.side, cfg.grid, cfg.cached_frames)
        super().__init__(cfg, obs_spec, obs_horizon, trunk)

    def backbone(self, cfg: Config, shape: tuple[int, int, int]) -> nn.Module:
        """Return a module from features of the transformer (N, D · g · g) to (N, width)."""
        with torch.no_grad():
            black = torch.zeros(1, *shape, dtype=torch.uint8)
            channels = self.trunk(black, torch.float32).shape[1] // cfg.grid**2
        return nn.Sequential(
            nn.Unflatten(1, (channels, cfg.grid**2)),
            _PlacesFirst(),
            nn.LayerNorm(channels),
            nn.Linear(channels, CHANNELS),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(CHANNELS * cfg.grid**2, cfg.width),
            nn.LayerNorm(cfg.width),
            nn.Tanh(),
        )


class _PlacesFirst(nn.Module):
    """Swaps channels and places: (N, D, g · g) to (N, g · g, D)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)
