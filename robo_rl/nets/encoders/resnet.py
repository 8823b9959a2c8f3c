"""ResNet-18 with group normalisation and a spatial softmax, trained from scratch.

Sources: He et al. 2016 (arXiv 1512.03385), table 1; group normalisation (Wu & He 2018, arXiv
1803.08494) and spatial softmax in place of batch statistics and average pooling, as in Diffusion
Policy (Chi et al. 2023, arXiv 2303.04137, section 3.2). Batch statistics would differ between
sampling and update, and the likelihood ratio of a fresh policy would not be 1.
"""

from __future__ import annotations

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ImageEncoder, demand_side
from robo_rl.nets.encoders.spatial_softmax import SpatialSoftmax

SMALLEST = 33
"""Side of the smallest image whose last map has two places along it, in pixels."""

BLOCKS = 2
"""Residual blocks of each of the four stages."""


class ResNetEncoder(ImageEncoder):
    """A ResNet-18 for each camera, spatial softmax, and a projection.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step.
        obs_horizon: To.
    """

    class Config(ConfigModel):
        """Channels of the stages, groups of the norms, width of the features."""

        channels: tuple[int, int, int, int] = (64, 128, 256, 512)
        """Channels of the four stages; the values are those of ResNet-18."""
        groups: int = Field(default=16, ge=1)
        """Groups of the group norms."""
        width: int = Field(default=128, ge=1)
        """Features of a frame of a camera."""
        shared: bool = False
        """Whether all cameras share the weights."""

        @model_validator(mode="after")
        def _groups_divide(self) -> ResNetEncoder.Config:
            for channels in self.channels:
                if channels % self.groups:
                    raise ValueError(f"channels {channels}: no multiple of groups {self.groups}")
            return self

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        super().__init__(cfg, obs_spec, obs_horizon)

    def backbone(self, cfg: Config, shape: tuple[int, int, int]) -> nn.Module:
        """Return a module from images (N, C, h, w) in [-1, 1] to (N, width).

        Raises:
            ConfigError: The image is so small that a side of the last map is one place.
        """
        first = cfg.channels[0]
        layers: list[nn.Module] = [
            nn.Conv2d(shape[0], first, 7, 2, 3, bias=False),
            nn.GroupNorm(cfg.groups, first),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        fan_in = first
        for stage, channels in enumerate(cfg.channels):
            for block in range(BLOCKS):
                stride = 2 if stage and not block else 1
                layers.append(ResidualBlock(fan_in, channels, stride, cfg.groups))
                fan_in = channels
        demand_side(shape, SMALLEST, "resnet18")
        body = nn.Sequential(*layers)
        height, width = body(torch.zeros(1, *shape)).shape[-2:]
        return nn.Sequential(
            body, SpatialSoftmax(height, width), nn.Linear(2 * fan_in, cfg.width), nn.SiLU()
        )


class ResidualBlock(nn.Module):
    """Two 3 × 3 convolutions and a skip: (N, C_in, h, w) → (N, C_out, h/stride, w/stride)."""

    def __init__(self, fan_in: int, fan_out: int, stride: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.norm_first, self.norm_second = (nn.GroupNorm(groups, fan_out) for _ in range(2))
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or fan_in != fan_out:
            shortcut = nn.Conv2d(fan_in, fan_out, 1, stride, bias=False)
            self.skip = nn.Sequential(shortcut, nn.GroupNorm(groups, fan_out))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x (N, C_in, h, w)."""
        y = F.relu(self.norm_first(self.first(x)))
        return F.relu(self.norm_second(self.second(y)) + self.skip(x))
