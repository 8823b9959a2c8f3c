"""Exponential moving average that updates the acting policy from the trained one."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from robo_rl.config.models import ConfigModel


class ActingPolicyEma(ConfigModel):
    """Schedule of the decay η of the acting weights: acting ← η·acting + (1−η)·learnt.

        η = min(slope·max(i − start, 0), max_decay)

    i is the number of earlier updates, with the critic's warm-up updates. The defaults are those of
    DiffusionNFT (arXiv 2509.16117, section 4). ``max_decay: 0`` is fully on-policy. The slowest
    schedule of the paper's code is ``{start: 75, slope: 0.0075, max_decay: 0.999}``.
    """

    start: int = Field(default=0, ge=0)
    """Updates before the decay rises from 0."""
    slope: float = Field(default=0.001, ge=0.0)
    """Slope of the decay per update."""
    max_decay: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Largest decay; 0 is fully on-policy."""

    def decay(self, updates: int) -> float:
        """Return η for an update with this number of earlier updates."""
        return min(self.slope * max(updates - self.start, 0), self.max_decay)


@torch.no_grad()
def ema_update_(acting: nn.Module, learnt: nn.Module, decay: float) -> None:
    """Set acting ← decay·acting + (1 − decay)·learnt, in place."""
    for ours, theirs in zip(acting.parameters(), learnt.parameters(), strict=True):
        ours.lerp_(theirs, 1.0 - decay)
