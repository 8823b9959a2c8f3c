"""GRPO-Guard: normalises log-ratios so that ε has the same effect at every denoising step.

Shapes: R units of J denoising steps. In expectation over the drawn noise, ln r = −KL(old ‖ new),
with spread ‖Δμ‖/σ. The spread grows as the steps' noise falls, so one ε clips the last steps often
and the first steps never. With b = KL(old ‖ new) the normalised log-ratio (ln r + b)·σ has mean 0
and spread ‖Δμ‖ at every step.

Source: GRPO-Guard, arXiv 2510.22319. There b = ‖Δμ‖²/2σ², the same KL for a fixed σ. Here both
terms are sums over a unit's elements, like log-probabilities. The paper's loss weight 1/dt is left
out, because all steps of a chain have equal length.
"""

from __future__ import annotations

from enum import StrEnum
from typing import cast

from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, unit_sums
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.policy.kernels.base import Kernel
from robo_rl.policy.kernels.gaussian import GaussianKernel


class RatioNorm(StrEnum):
    """Whether log-ratios are normalised before the trust region."""

    NONE = "none"
    GUARD = "guard"


def guard_log_ratio(
    log_ratio: Tensor, old: Kernel, new: Kernel, data: ActorBatch, units: Units
) -> Tensor:
    """(ln r + b)·σ per step; (R, J).

    Args:
        log_ratio: (R, J), of each step.
        old: The acting policy's kernels, (R·J, H, A); Gaussian ones.
        new: The trained policy's kernels, (R·J, H, A).
        data: The rollout's decisions.
        units: The minibatch.
    """
    return (log_ratio + unit_sums(old.kl(new), data, units)) * _spread(
        cast(GaussianKernel, old), data, units
    )


def _spread(kernel: GaussianKernel, data: ActorBatch, units: Units) -> Tensor:
    """σ of a step's noise: the root mean square over its executed elements; (R, J)."""
    square = unit_sums(kernel.scale().square().expand_as(kernel.mean), data, units)
    count = data.executed[units.row].sum(dim=(1, 2)) * kernel.mean.shape[-1]
    return (square / count[:, None].clamp(min=1)).sqrt()
