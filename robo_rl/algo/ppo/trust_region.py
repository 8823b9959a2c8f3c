"""Trust regions: losses per unit that limit the change of a unit's likelihood ratio.

Shapes: R units. ε is in *joint* units: it bounds the ratio of a unit's whole likelihood, summed
over its steps, executed actions and their elements. ``joint_clip`` converts published values that
bound a mean over elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum

import torch
from torch import Tensor

DUAL_BOUND = 3.0
"""Upper bound of ``dual_clip``, in units of −A, for a unit of negative advantage."""

RAMP = 3.0
"""The exponent c of ``clip_ramp``."""


class TrustRegion(StrEnum):
    """The trust region: PPO's clip, dual clip, or SPO's penalty."""

    CLIP = "clip"
    DUAL_CLIP = "dual_clip"
    SPO = "spo"


Epsilon = Tensor | float
"""One number, or (R,)."""

TrustLoss = Callable[[Tensor, Tensor, Epsilon, Epsilon], Tensor]
"""(ratio (R,), advantage (R,), ε below 1, ε above 1) → loss (R,); both ε are of one kind."""


def clip(ratio: Tensor, adv: Tensor, low: Epsilon, high: Epsilon) -> Tensor:
    """PPO's clipped loss −min(r·A, r̄·A), r̄ = r clipped to [1 − low, 1 + high]; (R,).

    Source: Schulman et al. 2017, arXiv 1707.06347, eq. 7; low < high is DAPO's clip-higher
    (2503.14476, section 3.1).
    """
    inside = ratio.clamp(1.0 - low, 1.0 + high)  # pyright: ignore[reportArgumentType,reportCallIssue]
    return -torch.minimum(ratio * adv, inside * adv)


def dual_clip(ratio: Tensor, adv: Tensor, low: Epsilon, high: Epsilon) -> Tensor:
    """``clip``, bounded by c·(−A) where A < 0, so that one large ratio cannot dominate; (R,).

    Source: Ye et al. 2020, arXiv 1912.09729 (dual-clip PPO); c = 3.
    """
    loss = clip(ratio, adv, low, high)
    return torch.where(adv < 0, torch.minimum(loss, -DUAL_BOUND * adv), loss)


def spo(ratio: Tensor, adv: Tensor, low: Epsilon, high: Epsilon) -> Tensor:
    """The loss −(A·r − |A|·(r − 1)²/2ε), with its minimum at r = 1 ± ε; (R,).

    The gradient does not vanish outside the trust region. ε is ``high`` where A > 0 and ``low``
    where A < 0. Source: Simple Policy Optimization, Xie et al. 2024, arXiv 2401.16025.
    """
    epsilon = torch.where(adv > 0, high, low)
    return -(adv * ratio - adv.abs() * (ratio - 1.0).square() / (2.0 * epsilon))


LOSSES: dict[TrustRegion, TrustLoss] = {
    TrustRegion.CLIP: clip,
    TrustRegion.DUAL_CLIP: dual_clip,
    TrustRegion.SPO: spo,
}


def clip_ramp(base: float, epsilon: float, position: Tensor) -> Tensor:
    """ε over the trained steps, from ``base`` at the noisiest to ``epsilon`` at the last; (R,).

    ε_k = base + (ε − base)·(e^{c·u} − 1)/(e^c − 1), c = 3 (DPPO, arXiv 2409.00588, and its code).

    Args:
        base: ε of the first trained step.
        epsilon: ε of the last trained step.
        position: (R,) u in [0, 1], position of a unit's step among the trained steps.
    """
    return base + (epsilon - base) * torch.expm1(RAMP * position) / math.expm1(RAMP)


def joint_clip(epsilon: float, dims: int) -> tuple[float, float]:
    """Convert ε of a mean log-ratio to joint units: (below 1, above 1).

    A ratio of *mean* log-probabilities is the joint ratio to the power 1/dims. Holding it within 1
    ± ε holds the joint ratio within [(1 − ε)^dims, (1 + ε)^dims].

    DPPO's 0.01 is a mean over the executed actions' elements. 12 elements (Hopper: 4 actions of 3)
    give (0.114, 0.127), 28 (Square: 4 of 7) give (0.245, 0.321). ReinFlow's 0.01 is a mean over the
    elements of all K + 1 states of the chain. 60 elements (Hopper, K = 4) give (0.453, 0.817).
    Methods that sum (RL-100, Flow-SDE) need no conversion.

    Args:
        epsilon: The published ε, in (0, 1).
        dims: Number of terms of the published mean.
    """
    return -math.expm1(dims * math.log1p(-epsilon)), math.expm1(dims * math.log1p(epsilon))
