"""Sample units of PPO: the denoising steps that share one likelihood ratio.

Shapes: N decisions, R units, J steps a unit, K denoising steps. A unit is a decision n and J steps
of its chain. Its log-ratio sums over these steps and over the executed part of the chunk, so
clipping is in joint units.

At inner steps too, only the executed part is scored, as in DPPO's code (2409.00588). The effect of
the rest of x[k+1] on later steps through the network is ignored. The ratio is exact if the whole
chunk is executed, or if the network treats actions independently.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.core.errors import ConfigError


class RatioMode(StrEnum):
    """The sample unit of the likelihood ratio.

    per_step: one denoising step (DPPO, 2409.00588; RL-100). joint: all trained steps (ReinFlow,
    2505.22094). single_step: the one stochastic step (Flow-SDE hybrid, 2510.25889). cfm: no
    likelihood of the chain (FPO, 2507.21053; see ``ppo.cfm_ratio``). noise_conditioned: the last
    step, given the noise of the steps before it (NCDPO, 2505.10482; see ``ppo.chain_replay``).
    """

    PER_STEP = "per_step"
    JOINT = "joint"
    SINGLE_STEP = "single_step"
    CFM = "cfm"
    NOISE_CONDITIONED = "noise_conditioned"


class Units(NamedTuple):
    """Sample units.

    Args:
        row: (R,), the decision of each unit.
        k: (R, J), the denoising steps of each unit.
        distinct: Whether units are known to have different decisions.
    """

    row: Tensor
    k: Tensor
    distinct: bool = False

    def select(self, pick: Tensor) -> Units:
        """Return the units at these indices, of which none occurs twice."""
        return Units(self.row[pick], self.k[pick], self.distinct)


def make_units(mode: RatioMode, rows: int, steps: Tensor, k_star: Tensor | None) -> Units:
    """Return all units of N decisions.

    Args:
        mode: The sample unit; ``cfm`` makes its own.
        rows: N.
        steps: (K',) the trained steps.
        k_star: (N,) the one stochastic step of each chain; for single_step.

    Raises:
        ConfigError: single_step with chains that were not drawn with one stochastic step.
    """
    row = torch.arange(rows, device=steps.device)
    if mode is RatioMode.SINGLE_STEP:
        if k_star is None:
            raise ConfigError("ratio 'single_step' needs chains with one stochastic step each")
        return Units(row, k_star[:, None], distinct=True)
    if mode in (RatioMode.JOINT, RatioMode.NOISE_CONDITIONED):
        scored = steps if mode is RatioMode.JOINT else steps[-1:]
        return Units(row, scored.expand(rows, -1), distinct=True)
    return Units(row.repeat_interleave(len(steps)), steps.repeat(rows)[:, None])


def units_per_decision(mode: RatioMode, steps: Tensor) -> int:
    """Number of units per decision: a unit's KL times this is the chain's KL."""
    return len(steps) if mode is RatioMode.PER_STEP else 1
