"""Noise of the actions of a critic's target, TD3's target policy smoothing.

Source: Fujimoto et al. 2018 (arXiv 1802.09477), section 5.3 and algorithm 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.policy.chain import randn


def smoothed(act: Tensor, std: float, clip: float, generator: torch.Generator) -> Tensor:
    """Return normalised actions (B, H, A) with noise of ``std``, clipped to ±``clip``."""
    noise = std * randn(act.shape, generator).to(act)
    return act + noise.clamp(-clip, clip)
