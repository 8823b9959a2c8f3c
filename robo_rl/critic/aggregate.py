"""Aggregation of an ensemble's values to one value.

Shapes: M members, (…) rows.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel


class EnsembleAggregation:
    """A rule that reduces the members' values to one value.

    Args:
        cfg: See Config.
        members: M.

    Raises:
        ValueError: The subset is larger than the ensemble.
    """

    class Config(ConfigModel):
        """Rule of aggregation.

        ``min`` and ``mean`` are over all members. ``subset_min`` is the minimum of ``subset``
        random members, drawn at each call (REDQ, Chen et al. 2021, arXiv 2101.05982, algorithm 1).
        ``lower_bound`` is mean − ``kappa`` · std; with two members and kappa 1 it is the minimum.
        ``quantile`` is a quantile over the members; 0 is the minimum (Yang et al. 2023, arXiv
        2310.12955).
        """

        mode: Literal["min", "mean", "subset_min", "lower_bound", "quantile"] = "min"
        """How the members are reduced to one value."""
        subset: int = Field(default=2, ge=1)
        """Number of members drawn in mode ``subset_min``."""
        kappa: float = Field(default=1.0, ge=0.0)
        """Standard deviations below the mean in mode ``lower_bound``."""
        quantile: float = Field(default=0.25, ge=0.0, le=1.0)
        """Quantile of the members in mode ``quantile``."""

        def check_critic(self, members: int, *, learns_laws: bool = False) -> None:
            """Check that an ensemble can be reduced so.

            Args:
                members: M.
                learns_laws: Whether the members' laws are reduced, which the result must mix.

            Raises:
                ValueError: The subset is larger than the ensemble, or the rule mixes no laws.
            """
            if self.mode == "subset_min" and self.subset > members:
                raise ValueError(
                    f"subset: larger than the ensemble; expected at most {members}, found"
                    f" {self.subset}; give the critic more members"
                )
            if learns_laws and self.mode in ("lower_bound", "quantile"):
                raise ValueError(
                    "mode: no member's law and no mixture of them; expected min, mean or subset_min"
                    f" with a categorical critic, found {self.mode}"
                )

    def __init__(self, cfg: Config, members: int) -> None:
        cfg.check_critic(members)
        self.cfg = cfg

    def __call__(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """Reduce values (M, …) to (…); the generator draws the subset."""
        if self.cfg.mode == "mean":
            return values.mean(dim=0)
        if self.cfg.mode == "lower_bound":
            return lower_bound(values, self.cfg.kappa)
        if self.cfg.mode == "quantile":
            return values.quantile(self.cfg.quantile, dim=0)
        if self.cfg.mode == "subset_min":
            values = values[random_subset(len(values), self.cfg.subset, generator)]
        return values.amin(dim=0)

    def member_weights(self, values: Tensor, generator: torch.Generator) -> Tensor:
        """Return the weights (M, …) of the members in the mixture, given values (M, …)."""
        if self.cfg.mode == "mean":
            return torch.full_like(values, 1.0 / len(values))
        among = torch.arange(len(values), device=values.device)
        if self.cfg.mode == "subset_min":
            among = random_subset(len(values), self.cfg.subset, generator)
        least = among[values[among].argmin(dim=0)]
        return torch.zeros_like(values).scatter_(0, least.unsqueeze(0), 1.0)


def lower_bound(values: Tensor, kappa: float) -> Tensor:
    """Mean − κ·std over the first axis, the std with divisor M: (M, …) → (…)."""
    std, mean = torch.std_mean(values, dim=0, correction=0)
    return mean - kappa * std


def random_subset(members: int, size: int, generator: torch.Generator) -> Tensor:
    """Return indices (size,) of different members."""
    return torch.randperm(members, generator=generator, device=generator.device)[:size]
