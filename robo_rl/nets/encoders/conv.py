"""A small strided CNN, the encoder of images for training on a CPU.

Source: the network of DQN (Mnih et al. 2015, Nature 518, extended data table 1), with layer
normalisation of its features (Yarats et al. 2021, DrQ-v2, arXiv 2107.09645, section 4.1).
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from robo_rl.config.models import ConfigModel
from robo_rl.core.spec import ObsSpec
from robo_rl.nets.encoders.base import ImageEncoder, demand_side

KERNELS = ((8, 4), (4, 2), (3, 1))
"""Kernel size and stride of the three layers, in pixels."""

SMALLEST = 36
"""Side of the smallest image that the three layers map to more than one place, in pixels."""


class ConvEncoder(ImageEncoder):
    """Three strided convolutions, a projection and layer normalisation for each camera.

    Args:
        cfg: See Config.
        obs_spec: Observation of one step.
        obs_horizon: To.

    Raises:
        ConfigError: An image has a side below ``SMALLEST``.
    """

    class Config(ConfigModel):
        """Channels of the layers, width of the features, and weights shared by the cameras."""

        channels: tuple[int, int, int] = (32, 64, 64)
        """Channels of the three convolutions."""
        width: int = Field(default=128, ge=1)
        """Features of a frame of a camera."""
        shared: bool = False
        """Whether all cameras share the weights."""

    def __init__(self, cfg: Config, obs_spec: ObsSpec, obs_horizon: int) -> None:
        super().__init__(cfg, obs_spec, obs_horizon)

    def backbone(self, cfg: Config, shape: tuple[int, int, int]) -> nn.Module:
        """Return a module from images (N, C, h, w) in [-1, 1] to (N, width).

        Raises:
            ConfigError: The image is too small.
        """
        demand_side(shape, SMALLEST, "conv")
        layers: list[nn.Module] = []
        for (kernel, stride), fan_in, fan_out in zip(
            KERNELS, (shape[0], *cfg.channels), cfg.channels, strict=False
        ):
            layers += [nn.Conv2d(fan_in, fan_out, kernel, stride), nn.SiLU()]
        body = nn.Sequential(*layers, nn.Flatten())
        flat = body(torch.zeros(1, *shape)).shape[1]
        return nn.Sequential(body, nn.Linear(flat, cfg.width), nn.LayerNorm(cfg.width), nn.Tanh())
