"""Likelihood ratios of chains: how a policy under training is compared with the one that acted.

Shapes: N decisions, U units of a block, R of a minibatch, J denoising steps a unit, H horizon, A
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
    """What a policy says of a minibatch of units.

    Args:
        log_ratio: (R,) ln r to the acting policy.
        trust_region_log_ratio: (R,) what the trust region holds: ``log_ratio``, or its normalised form.
        kernel: (R·J, H, A) the policy's kernels, None where ratios are estimated without them.
    """

    log_ratio: Tensor
    trust_region_log_ratio: Tensor
    kernel: Kernel | None


class Likelihood(Protocol):
    """Ratios over one block.

    Args:
        data: The block.
        units: All of its units.
        units_per_decision: Units whose KLs sum to that of a decision.
    """

    data: ActorBatch
    units: Units
    units_per_decision: int

    def score(self, policy: DenoisingPolicy, pick: Tensor) -> LogRatios:
        """The policy's ratios over the units ``pick`` (R,), with gradient."""
        ...


class ChainLikelihood:
    """Ratios of chains under their kernels: exact; see ``Likelihood``.

    Args:
        policy: As it acted.
        data: The block.
        units: All of its units.
        units_per_decision: See ``Likelihood``.
        norm: Of what the trust region holds.
        rescore: Score what was acted under ``policy`` once more, because networks compute here in
            other numbers than where it was drawn.
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
        """See ``Likelihood``."""
        units = self.units.select(pick)
        kernel = unit_kernel(policy, self.data, units)
        log_prob = unit_log_prob(kernel, self.data, units)
        acted = self._acted[pick]
        log_ratio = log_prob.sum(-1) - acted.sum(-1)
        if self._old is None:
            return LogRatios(log_ratio, log_ratio, kernel)
        steps = guard_log_ratio(log_prob - acted, self._old.select(pick), kernel, self.data, units)
        return LogRatios(log_ratio, steps.sum(-1), kernel)
