"""A Gaussian squashed into (−1, 1) by tanh, with its density; for small actors.

Shapes: B rows, D input features, A outputs. Source: Haarnoja et al. 2018 (arXiv 1812.05905,
appendix C): u ~ N(μ, σ²), y = tanh(u), log p(y) = log N(u) − Σ log(1 − tanh²(u)).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.nets.ensemble import MlpEnsemble

_LOG_STD = (-5.0, 1.0)


class SquashedGaussian(nn.Module):
    """An MLP with stochastic outputs in (−1, 1).

    Args:
        inputs: D.
        outputs: A.
        hidden: Widths of the hidden layers.
    """

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.net = MlpEnsemble(1, [inputs, *hidden, 2 * outputs], layer_norm=True)

    def forward(self, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Map inputs (B, D) to reparameterised samples (B, A) and their log-densities (B,)."""
        mean, raw = self.net(x)[0].chunk(2, dim=-1)
        low, high = _LOG_STD
        log_std = low + (high - low) * raw.sigmoid()
        noise = torch.randn(mean.shape, generator=generator, device=generator.device).to(mean)
        drawn = mean + log_std.exp() * noise
        normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
        pressed = 2.0 * (math.log(2.0) - drawn - F.softplus(-2.0 * drawn))  # log(1 − tanh²)
        return drawn.tanh(), (normal - pressed).sum(dim=-1)
