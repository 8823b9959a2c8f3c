"""Random changes of images for learning from fixed data: shift, brightness and contrast.

Shapes: B rows, To frames of history, C channels, h × w pixels. All frames of a row change alike. A
likelihood ratio compares one observation under two policies, so on-policy updates change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.images import channels_first


class ImageAugmentation:
    """Changes the images of observations at random.

    Args:
        cfg: See Config.
        names: Items that are images.
    """

    class Config(ConfigModel):
        """Ranges of the changes; 0 is off.

        ``shift`` repeats the border (Kostrikov et al. 2020, arXiv 2004.13649, section 3.1). It
        moves objects in the image, so a fixed camera that locates objects needs a small one.
        """

        shift: int = Field(default=2, ge=0)
        """Largest shift along each axis, in pixels."""
        brightness: float = Field(default=0.1, ge=0.0, lt=1.0)
        """Largest change of the brightness, as a share of it."""
        contrast: float = Field(default=0.1, ge=0.0, lt=1.0)
        """Largest change of the contrast, as a share of it."""

    def __init__(self, cfg: Config, names: Iterable[str]) -> None:
        self.cfg, self.names = cfg, tuple(names)

    def __call__(self, obs: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        """Return observations name → (B, To, …) with other images; draws nothing without images."""
        return {
            name: self._changed(value, generator) if name in self.names else value
            for name, value in obs.items()
        }

    def _changed(self, images: Tensor, generator: torch.Generator) -> Tensor:
        first = channels_first(tuple(images.shape[2:]))
        if not first:
            images = images.permute(0, 1, 4, 2, 3)
        if self.cfg.shift:
            images = random_shift(images, self.cfg.shift, generator)
        if self.cfg.brightness or self.cfg.contrast:
            images = color_jitter(images, self.cfg.brightness, self.cfg.contrast, generator)
        return images if first else images.permute(0, 1, 3, 4, 2)


def random_shift(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Shift images (B, To, C, h, w) by up to ``most`` pixels; the border is repeated."""
    rows, (height, width), device = images.shape[0], images.shape[-2:], generator.device
    drawn = torch.randint(-most, most + 1, (rows, 2), generator=generator, device=device)
    offset = drawn.to(images.device)
    down = (torch.arange(height, device=images.device) + offset[:, :1]).clamp(0, height - 1)
    across = (torch.arange(width, device=images.device) + offset[:, 1:]).clamp(0, width - 1)
    row = torch.arange(rows, device=images.device)[:, None, None]
    # the places of indexed axes come first: (B, h, w, To, C)
    moved = images.permute(0, 3, 4, 1, 2)[row, down[:, :, None], across[:, None, :]]
    return moved.permute(0, 3, 4, 1, 2)


def color_jitter(
    images: Tensor, brightness: float, contrast: float, generator: torch.Generator
) -> Tensor:
    """Scale images (B, To, C, h, w) uint8 about 0, and about their mean, by drawn factors.

    Args:
        images: The images.
        brightness: Factors are within 1 ± brightness.
        contrast: Factors are within 1 ± contrast.
        generator: Draws two factors per row.
    """
    rows = images.shape[0]
    drawn = 2.0 * torch.rand(2, rows, generator=generator, device=generator.device) - 1.0
    drawn = drawn.to(images.device).view(2, rows, 1, 1, 1, 1)
    bright, contrasted = 1.0 + brightness * drawn[0], 1.0 + contrast * drawn[1]
    pixels = images.float()
    mean = pixels.mean(dim=(1, 2, 3, 4), keepdim=True)
    changed = bright * (mean + contrasted * (pixels - mean))
    return changed.add_(0.5).clamp_(0.0, 255.0).to(torch.uint8)
