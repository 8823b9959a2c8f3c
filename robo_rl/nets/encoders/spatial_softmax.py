"""Spatial softmax: the expected place of each channel of a feature map.

Source: Levine et al. 2016, "End-to-End Training of Deep Visuomotor Policies", arXiv 1504.00702,
section 5.2.

Shapes: N images, C channels, h × w places.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SpatialSoftmax(nn.Module):
    """Maps a feature map (N, C, h, w) to places (N, 2·C), x then y, in [-1, 1].

    Args:
        height: h.
        width: w.
    """

    x: Tensor
    y: Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))
        x, y = place_grid(height, width)
        self.register_buffer("x", x, persistent=False)
        self.register_buffer("y", y, persistent=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Return the expected places of the channels."""
        weight = (maps.flatten(2) * self.log_scale.exp()).softmax(dim=-1)
        return torch.cat([(weight * self.x).sum(-1), (weight * self.y).sum(-1)], dim=-1)


def place_grid(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return x and y (h · w,) of the places of a feature map, row by row, in [-1, 1]."""
    y, x = torch.meshgrid(_centres(height), _centres(width), indexing="ij")
    return x.flatten(), y.flatten()


def _centres(size: int) -> Tensor:
    """Return the centres of ``size`` places along an axis, from -1 to 1; 0 for one place."""
    return torch.linspace(-1.0, 1.0, size) if size > 1 else torch.zeros(1)
