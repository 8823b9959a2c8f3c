"""Likelihood ratios of chains between the policy under training and the acting policy.

Shapes: N decisions, U units of a rollout, R of a minibatch, J denoising steps a unit, H horizon, A
act_dim.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import (
    ActorBatch,
    KernelTable,
    log_prob_of_all,
    unit_kernel,
    unit_log_prob,
    unit_sums,
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
        kl: (R,) KL(acting policy ‖ policy) of each unit in nats, without gradient.
    """

    log_ratio: Tensor
    trust_region_log_ratio: Tensor
    kernel: Kernel | None
    kl: Tensor


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
        closed_form_kl: Whether the KL of a unit is in closed form, which takes one pass over the
            rollout; otherwise it is the estimate ``k3``.
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
        closed_form_kl: bool = True,
    ) -> None:
        self.data, self.units, self.units_per_decision = data, units, units_per_decision
        self._guards = norm is RatioNorm.GUARD
        self._old = KernelTable(policy, data, units) if self._guards or closed_form_kl else None
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
            return LogRatios(log_ratio, log_ratio, kernel, k3(log_ratio))
        old, trusted = self._old.select(pick), log_ratio
        if self._guards:
            trusted = guard_log_ratio(log_prob - acted, old, kernel, self.data, units).sum(-1)
        with torch.no_grad():
            kl = unit_sums(old.kl(kernel), self.data, units).sum(-1)
        return LogRatios(log_ratio, trusted, kernel, kl)


@torch.no_grad()
def k3(log_ratio: Tensor) -> Tensor:
    """Estimate of each unit's KL from its ratio, (r − 1) − ln r; (R,).

    Its expectation under the acting policy is the KL; its spread grows exponentially with ln r.
    Source: Schulman 2020, "Approximating KL divergence".
    """
    return log_ratio.exp() - 1.0 - log_ratio
