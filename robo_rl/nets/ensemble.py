"""An ensemble of MLPs of one shape, evaluated together.

Shapes: M members, B rows, D input features, W width of a layer.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MlpEnsemble(nn.Module):
    """M separate MLPs as one stack of batched matrix products.

    A layer's weights are one tensor. Optimisers, gradient norms and weight averages therefore
    process as few tensors as for a single MLP.

    Args:
        members: M.
        sizes: D, the widths of the hidden layers, the number of outputs.
        layer_norm: Whether hidden layers are normalised before their activation, which bounds
            values away from the data (Ball et al. 2023, arXiv 2302.02948, section 3.2).
        activation: Activation between the layers.
    """

    def __init__(
        self,
        members: int,
        sizes: list[int],
        *,
        layer_norm: bool = False,
        activation: type[nn.Module] = nn.SiLU,
    ) -> None:
        super().__init__()
        self.members = members
        layers: list[nn.Module] = []
        for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            layers += [EnsembleLinear(members, fan_in, fan_out)]
            if i < len(sizes) - 2:
                layers += [EnsembleNorm(members, fan_out)] if layer_norm else []
                layers += [activation()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Map x (B, D) for all members, or (M, B, D) per member, to (M, B, out)."""
        return self.layers(x if x.ndim == 3 else x.expand(self.members, *x.shape))


class EnsembleLinear(nn.Module):
    """M linear layers, initialised like ``nn.Linear``: (M, B, D) → (M, B, W)."""

    def __init__(self, members: int, fan_in: int, fan_out: int) -> None:
        super().__init__()
        singles = [nn.Linear(fan_in, fan_out) for _ in range(members)]
        self.weight = nn.Parameter(torch.stack([single.weight.detach().T for single in singles]))
        self.bias = nn.Parameter(torch.stack([single.bias.detach()[None] for single in singles]))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x (M, B, D)."""
        return torch.baddbmm(self.bias, x, self.weight)


class EnsembleNorm(nn.Module):
    """M layer norms over the last axis, each with its scale and shift: (M, B, W) → (M, B, W)."""

    def __init__(self, members: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x (M, B, W)."""
        return torch.addcmul(self.bias, F.layer_norm(x, x.shape[-1:]), self.weight)
