"""Regularization of PPO towards the reference policy, or towards the acting policy.

Shapes: U units of a rollout, R of a minibatch, J denoising steps a unit, H horizon, A act_dim.
Every penalty is in nats per unit, summed over steps and executed actions like the log-ratio.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import (
    ActorBatch,
    KernelTable,
    copy_exploration,
    unit_kernel,
    unit_log_prob,
    unit_sums,
)
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.config.models import ConfigModel
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Kernel


class RegularizationConfig(ConfigModel):
    """Coefficients of mean penalties per unit, which are added to the actor's loss; 0 is off.

    ``forward_kl`` is KL(reference ‖ policy), which covers all modes of the reference.
    ``reverse_kl`` is KL(policy ‖ reference), which stays within its modes. Both are in closed form
    at the states of the rollout's chains. With ratio ``noise_conditioned`` each policy's kernel is
    at the state that it reaches itself from the chain's noise.

    ``bc_reference`` is −log-probability of chains that the reference samples at the same
    observations (DPPO's regulariser, arXiv 2409.00588, its code). ``bc_rollout`` is
    −log-probability of the rollout's chains, which regularizes towards the acting policy.
    """

    forward_kl: float = Field(default=0.0, ge=0.0)
    """Coefficient of KL(reference ‖ policy); 0 is off."""
    reverse_kl: float = Field(default=0.0, ge=0.0)
    """Coefficient of KL(policy ‖ reference); 0 is off."""
    bc_reference: float = Field(default=0.0, ge=0.0)
    """Coefficient of cloning chains of the reference; 0 is off."""
    bc_rollout: float = Field(default=0.0, ge=0.0)
    """Coefficient of cloning the rollout's chains; 0 is off."""

    @property
    def needs_reference(self) -> bool:
        """Whether a penalty needs the reference policy."""
        return bool(self.forward_kl or self.reverse_kl or self.bc_reference)

    @property
    def enabled(self) -> bool:
        """Whether any coefficient is above 0."""
        return self.needs_reference or bool(self.bc_rollout)


class Regularizer:
    """The penalties on one rollout.

    Args:
        cfg: Coefficients.
        policy: The acting policy.
        base: The reference policy; None if no penalty needs it.
        data: The rollout's decisions.
        units: All of its units.
        generator: Source of noise for the reference's chains.
    """

    def __init__(
        self,
        cfg: RegularizationConfig,
        policy: DenoisingPolicy,
        base: DenoisingPolicy | None,
        data: ActorBatch,
        units: Units,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.data, self.units = cfg, data, units
        self._base: KernelTable | None = None
        self._imitated: ActorBatch | None = None
        if base is not None:
            base = copy_exploration(base, policy)
            if cfg.forward_kl or cfg.reverse_kl:
                self._base = KernelTable(base, data, units)
            if cfg.bc_reference:
                chains = _chains(base, data, generator)
                imitated = data._replace(x=chains, noise_history=None)
                self._imitated = imitated if data.replay is None else imitated.replayed(base)

    def penalties(self, policy: DenoisingPolicy, kernel: Kernel, pick: Tensor) -> dict[str, Tensor]:
        """Return unweighted penalties, name → (R,), with gradient.

        Args:
            policy: The policy under training.
            kernel: Its kernels at the units.
            pick: (R,) the units.
        """
        units, found = self.units.select(pick), dict[str, Tensor]()
        if self._base is not None:
            base = self._base.select(pick)
            found["forward_kl"] = unit_kl(base, kernel, self.data, units)
            found["reverse_kl"] = unit_kl(kernel, base, self.data, units)
        if self._imitated is not None:
            again = unit_kernel(policy, self._imitated, units)
            found["bc_reference"] = -unit_log_prob(again, self._imitated, units).sum(-1)
        if self.cfg.bc_rollout:
            found["bc_rollout"] = -unit_log_prob(kernel, self.data, units).sum(-1)
        return found

    def total(self, penalties: dict[str, Tensor]) -> Tensor:
        """The weighted sum of the penalties' means, a scalar."""
        weights = self.cfg.model_dump()
        terms = [weights[name] * value.mean() for name, value in penalties.items()]
        return torch.stack(terms).sum()


def unit_kl(one: Kernel, other: Kernel, data: ActorBatch, units: Units) -> Tensor:
    """KL(one ‖ other) of units in closed form, ‖Δμ‖²/2σ² if both have one σ; (R,).

    If the noise is one offset of the whole chunk, differences in the chunk's shape add
    ``Kernel.kl_shape_term``.
    """
    return unit_sums(one.kl(other) + one.kl_shape_term(other), data, units).sum(-1)


@torch.no_grad()
def _chains(base: DenoisingPolicy, data: ActorBatch, generator: torch.Generator) -> Tensor:
    """Sample a chain of the reference for every decision: (N, K+1, H, A)."""
    size = data.obs.kernels_at_once(base)
    parts = [
        base.sample(
            {name: o[start : start + size] for name, o in data.obs.items.items()}, generator
        ).x
        for start in range(0, len(data.x), size)
    ]
    return torch.cat(parts)
