"""Likelihood ratios of chains between the policy under training and the acting policy.

Shapes: N decisions, U units of a rollout, R of a minibatch, J denoising steps a unit, H horizon, A
act_dim.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from torch import Tensor

from robo_rl.algo.ppo.actor_batch import (
    ActorBatch,
    KernelTable,
    log_prob_of_all,
    unit_kernel,
    unit_log_prob,
)
from robo_rl.algo.ppo.ratio_norm import RatioNorm, guard_log_ratio
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Kernel


class LogRatios(NamedTuple):
    """Log-ratios and kernels of a policy on a minibatch of units.

    Args:
        log_ratio: (R,) ln r to the acting policy.
        trust_region_log_ratio: (R,) input of the trust region: ``log_ratio``, or its normalised
            form.
        kernel: (R·J, H, A) the policy's kernels; None if ratios are estimated without them.
    """

    log_ratio: Tensor
    trust_region_log_ratio: Tensor
    kernel: Kernel | None


class Likelihood(Protocol):
    """Computes the ratios of a rollout.

    Args:
        data: The rollout's decisions.
        units: All of its units.
        units_per_decision: Number of units with KLs that sum to the KL of a decision.
    """

    data: ActorBatch
    units: Units
    units_per_decision: int

    def score(self, policy: DenoisingPolicy, pick: Tensor) -> LogRatios:
        """Return the policy's ratios for the units ``pick`` (R,), with gradient."""
        ...


class ChainLikelihood:
    """Exact ratios of chains under their kernels; see ``Likelihood``.

    Args:
        policy: The acting policy.
        data: The rollout's decisions.
        units: All of its units.
        units_per_decision: See ``Likelihood``.
        norm: Normalisation of the trust region's input.
        rescore: Whether to recompute the acting log-probabilities under ``policy``, for networks
            that train in another precision than they act.
    """

    def __init__(
        self,
        policy: DenoisingPolicy,
        data: ActorBatch,
        units: Units,
        *,
        units_per_decision: int,
        norm: RatioNorm,
        rescore: bool = False,
    ) -> None:
        self.data, self.units, self.units_per_decision = data, units, units_per_decision
        self._old = KernelTable(policy, data, units) if norm is RatioNorm.GUARD else None
        drawn = data.log_prob[units.row[:, None], units.k]
        self._acted = log_prob_of_all(policy, data, units) if rescore else drawn

    def score(self, policy: DenoisingPolicy, pick: Tensor) -> LogRatios:
        """Return the ratios and kernels of units."""
        units = self.units.select(pick)
        kernel = unit_kernel(policy, self.data, units)
        log_prob = unit_log_prob(kernel, self.data, units)
        acted = self._acted[pick]
        log_ratio = log_prob.sum(-1) - acted.sum(-1)
        if self._old is None:
            return LogRatios(log_ratio, log_ratio, kernel)
        steps = guard_log_ratio(log_prob - acted, self._old.select(pick), kernel, self.data, units)
        return LogRatios(log_ratio, steps.sum(-1), kernel)
