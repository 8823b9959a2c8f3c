"""Output heads of critics: a scalar value, or a histogram over values.

Shapes: M members, B rows, n outputs of the network, targets (B,) for all members or (M, B).
"""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel


class HeadConfig(ConfigModel):
    """Loss of a critic.

    ``mse`` and ``huber`` (quadratic up to ``huber_delta``) regress the value. ``hl_gauss`` and
    ``two_hot`` classify it into ``bins`` of equal width, by cross-entropy. ``categorical`` does so
    too, and learns the distribution of the return for action values (C51).

    ``bounds`` are the smallest and largest possible values: 0 and 1 if success gives reward 1 and
    ends the episode. Targets are clamped to them, and histograms need them. ``sigma_bins`` is
    hl_gauss's σ in bins.
    """

    kind: Literal["mse", "huber", "hl_gauss", "two_hot", "categorical"] = "mse"
    """Loss of the value regression or classification."""
    huber_delta: float = Field(default=1.0, gt=0.0)
    """Error up to which ``huber`` is quadratic."""
    bins: int = Field(default=101, ge=4)
    """Bins of a histogram."""
    sigma_bins: float = Field(default=0.75, gt=0.0)
    """Width σ of ``hl_gauss``, in bins."""
    bounds: tuple[float, float] | None = None
    """Smallest and largest possible value; null if unknown."""

    @property
    def margin(self) -> int:
        """Bins beyond each bound, so that a target at the bound keeps its mean."""
        return math.ceil(3.0 * self.sigma_bins) if self.kind == "hl_gauss" else 1

    @model_validator(mode="after")
    def _bounds_and_bins_agree(self) -> Self:
        if self.bounds is not None and self.bounds[0] >= self.bounds[1]:
            raise ValueError(f"bounds {self.bounds}: the first must be below the second")
        if self.kind in ("mse", "huber"):
            return self
        if self.bounds is None:
            raise ValueError(f"{self.kind} needs bounds, for rewards of 1 at success [0, 1]")
        if self.bins <= 2 * self.margin:
            raise ValueError(
                f"{self.bins} bins leave none between the bounds: more than"
                f" {2 * self.margin} are needed"
            )
        return self


class ScalarHead(nn.Module):
    """A head with one output, the value; squared or Huber loss."""

    def __init__(self, cfg: HeadConfig) -> None:
        super().__init__()
        self.cfg, self.outputs = cfg, 1

    def value(self, out: Tensor) -> Tensor:
        """Map output (M, B, 1) to values (M, B)."""
        return out.squeeze(-1)

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """Return the loss (M, B) of output (M, B, 1)."""
        value, target = torch.broadcast_tensors(
            self.value(out), clamp_to_bounds(target, self.cfg.bounds)
        )
        if self.cfg.kind == "mse":
            return 0.5 * (value - target).square()
        return F.huber_loss(value, target, reduction="none", delta=self.cfg.huber_delta)


class HistogramHead(nn.Module):
    """Logits of bins of equal width; the value is the mean of their centres.

    Farebrother et al. 2024 (arXiv 2403.03950): cross-entropy in place of regression.
    """

    edges: Tensor
    centres: Tensor

    def __init__(self, cfg: HeadConfig) -> None:
        super().__init__()
        low, high = cfg.bounds or (0.0, 1.0)
        self.cfg, self.outputs = cfg, cfg.bins
        self.width = (high - low) / (cfg.bins - 2 * cfg.margin)
        edges = low + self.width * (torch.arange(cfg.bins + 1) - cfg.margin)
        self.register_buffer("edges", edges, persistent=False)
        self.register_buffer("centres", edges[:-1] + 0.5 * self.width, persistent=False)

    def value(self, out: Tensor) -> Tensor:
        """Map logits (M, B, n) to values (M, B)."""
        return out.softmax(-1) @ self.centres

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy (M, B) of logits (M, B, n) for target values."""
        return self.distribution_loss(
            out, self.target_distribution(clamp_to_bounds(target, self.cfg.bounds))
        )

    def distribution_loss(self, out: Tensor, law: Tensor) -> Tensor:
        """Cross-entropy (M, B) of logits (M, B, n) for target probabilities (B, n)."""
        return -(law * out.log_softmax(-1)).sum(-1)

    def target_distribution(self, target: Tensor) -> Tensor:
        """Map values (…) within the bounds to probabilities of the bins (…, n)."""
        if self.cfg.kind == "hl_gauss":
            return gaussian_bins(target, self.edges, self.cfg.sigma_bins * self.width)
        return two_hot(target, self.centres)

    def project(self, values: Tensor, law: Tensor) -> Tensor:
        """Project a distribution with mass ``law`` (B, n) at ``values`` (B, n) onto the bins.

        The result is (B, n). Each mass is split between the two centres next to its value, which is
        clamped to the bounds (Bellemare et al. 2017, arXiv 1707.06887, eq. 7).
        """
        return (
            self.target_distribution(clamp_to_bounds(values, self.cfg.bounds)) * law.unsqueeze(-1)
        ).sum(-2)


def gaussian_bins(value: Tensor, edges: Tensor, sigma: float) -> Tensor:
    """HL-Gauss: mass of N(value, σ²) in each bin, normalised over the range of the edges.

    Imani & White 2018 (arXiv 1806.04613), eq. 4; Farebrother et al. 2024 (arXiv 2403.03950),
    section 3.1.

    Args:
        value: (…).
        edges: (n+1,), rising.
        sigma: σ, in the unit of value.

    Returns:
        (…, n), which sum to 1.
    """
    below = torch.special.ndtr((edges - value.unsqueeze(-1)) / sigma)
    return below.diff(dim=-1) / (below[..., -1:] - below[..., :1])


def two_hot(value: Tensor, centres: Tensor) -> Tensor:
    """Weights of the two centres next to a value, evenly spaced (n,): (…) → (…, n).

    The projection of C51 (Bellemare et al. 2017, arXiv 1707.06887, eq. 7) for a single value.
    """
    per_bin = (len(centres) - 1) / (centres[-1] - centres[0])
    place = (value.unsqueeze(-1) - centres[0]) * per_bin
    bins = torch.arange(len(centres), device=value.device)
    return (1.0 - (place - bins).abs()).clamp(min=0.0)


def clamp_to_bounds(target: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """Clamp targets to the bounds, if there are any."""
    return target if bounds is None else target.clamp(*bounds)


def make_head(cfg: HeadConfig) -> ScalarHead | HistogramHead:
    """Return the configured head."""
    return ScalarHead(cfg) if cfg.kind in ("mse", "huber") else HistogramHead(cfg)
