"""What a critic's last layer says: a value itself, or a histogram over values.

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

    ``mse`` and ``huber`` (quadratic up to ``huber_delta``) regress the value; ``hl_gauss`` and
    ``two_hot`` classify it into ``bins`` of one width, by cross-entropy; ``categorical`` does so
    too and, of actions, learns the law of the return (C51). ``bounds`` are the values
    that are possible at all, 0 and 1 where the reward is 1 at success and ends the episode: targets
    are held to them, and histograms cannot do without. ``sigma_bins`` is hl_gauss's σ in bins.
    """

    kind: Literal["mse", "huber", "hl_gauss", "two_hot", "categorical"] = "mse"
    """Loss by which values are learnt."""
    huber_delta: float = Field(default=1.0, gt=0.0)
    """Error up to which ``huber`` is quadratic."""
    bins: int = Field(default=101, ge=4)
    """Bins of a histogram."""
    sigma_bins: float = Field(default=0.75, gt=0.0)
    """Width σ of ``hl_gauss``, in bins."""
    bounds: tuple[float, float] | None = None
    """Least and largest value that is possible; null where that is not known."""

    @property
    def margin(self) -> int:
        """Bins beyond either bound, so that a target at the bound keeps its mean there."""
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
    """One output, the value; half the squared error, or Huber's loss."""

    def __init__(self, cfg: HeadConfig) -> None:
        super().__init__()
        self.cfg, self.outputs = cfg, 1

    def value(self, out: Tensor) -> Tensor:
        """Output (M, B, 1) → value (M, B)."""
        return out.squeeze(-1)

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """Loss (M, B) of output (M, B, 1)."""
        value, target = torch.broadcast_tensors(
            self.value(out), clamp_to_bounds(target, self.cfg.bounds)
        )
        if self.cfg.kind == "mse":
            return 0.5 * (value - target).square()
        return F.huber_loss(value, target, reduction="none", delta=self.cfg.huber_delta)


class HistogramHead(nn.Module):
    """Logits of bins of one width; the value is the mean over their centres.

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
        """Logits (M, B, n) → value (M, B)."""
        return out.softmax(-1) @ self.centres

    def loss(self, out: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy (M, B) of logits (M, B, n) and values."""
        return self.distribution_loss(
            out, self.target_distribution(clamp_to_bounds(target, self.cfg.bounds))
        )

    def distribution_loss(self, out: Tensor, law: Tensor) -> Tensor:
        """Cross-entropy (M, B) of logits (M, B, n) and probabilities (B, n)."""
        return -(law * out.log_softmax(-1)).sum(-1)

    def target_distribution(self, target: Tensor) -> Tensor:
        """Values (…) within the bounds → probabilities of the bins (…, n)."""
        if self.cfg.kind == "hl_gauss":
            return gaussian_bins(target, self.edges, self.cfg.sigma_bins * self.width)
        return two_hot(target, self.centres)

    def project(self, values: Tensor, law: Tensor) -> Tensor:
        """Of a law with mass ``law`` (B, n) at ``values`` (B, n) what these bins can say, (B, n).

        Each mass goes to the centres beside its value, which is held to the bounds: Bellemare et
        al. 2017 (arXiv 1707.06887), eq. 7.
        """
        return (
            self.target_distribution(clamp_to_bounds(values, self.cfg.bounds)) * law.unsqueeze(-1)
        ).sum(-2)


def gaussian_bins(value: Tensor, edges: Tensor, sigma: float) -> Tensor:
    """HL-Gauss: mass of N(value, σ²) in each bin, of what lies between the outermost edges.

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
    """The value as a mean of the two centres beside it, evenly spaced (n,): (…) → (…, n).

    The projection of C51 (Bellemare et al. 2017, arXiv 1707.06887, eq. 7), of a single value.
    """
    per_bin = (len(centres) - 1) / (centres[-1] - centres[0])
    place = (value.unsqueeze(-1) - centres[0]) * per_bin
    bins = torch.arange(len(centres), device=value.device)
    return (1.0 - (place - bins).abs()).clamp(min=0.0)


def clamp_to_bounds(target: Tensor, bounds: tuple[float, float] | None) -> Tensor:
    """Targets within the bounds, if there are any."""
    return target if bounds is None else target.clamp(*bounds)


def make_head(cfg: HeadConfig) -> ScalarHead | HistogramHead:
    """The head of that kind."""
    return ScalarHead(cfg) if cfg.kind in ("mse", "huber") else HistogramHead(cfg)
