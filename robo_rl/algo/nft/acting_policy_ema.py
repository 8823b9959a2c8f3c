"""An acting network that follows a learning one with a lag."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from robo_rl.config.models import ConfigModel


class ActingPolicyEma(ConfigModel):
    """Decay η of the acting weights: after an update, acting ← η·acting + (1−η)·learnt.

    η = min(rise·(i − flat), limit) after the update that i others came before, those that only
    warmed the critic up among them; 0 before ``start``. The defaults are those of DiffusionNFT
    (arXiv 2509.16117, section 4); ``limit: 0`` is fully on-policy, ``{flat: 75, rise: 0.0075,
    max_decay: 0.999}`` the slowest of its code.
    """

    start: int = Field(default=0, ge=0)
    """Updates before the decay rises from 0."""
    slope: float = Field(default=0.001, ge=0.0)
    """Slope of the decay per update."""
    max_decay: float = Field(default=0.5, ge=0.0, lt=1.0)
    """Largest decay; 0 is fully on-policy."""

    def decay(self, updates: int) -> float:
        """η after so many updates."""
        return min(self.slope * max(updates - self.start, 0), self.max_decay)


@torch.no_grad()
def ema_update_(acting: nn.Module, learnt: nn.Module, decay: float) -> None:
    """Move the weights of one network to those of another, all but a share ``decay`` of the way."""
    for ours, theirs in zip(acting.parameters(), learnt.parameters(), strict=True):
        ours.lerp_(theirs, 1.0 - decay)
