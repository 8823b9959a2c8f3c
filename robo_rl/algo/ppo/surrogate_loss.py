"""The actor's loss on a minibatch of units, and what it says of the update.

Shapes: R units of J denoising steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.ppo.likelihood_ratio import Scored
from robo_rl.algo.ppo.trust_region import LOSSES, Epsilon, Trust
from robo_rl.distributed.process_group import here, summed


class Rule(NamedTuple):
    """How ratios become a loss.

    Args:
        trust: The trust region.
        low: ε below 1, of what is trusted; one number or (R,).
        high: ε above 1, of the same kind.
        log_ratio_max: Bound of |ln r| in the loss; a unit beyond it has no gradient.
    """

    trust: Trust
    low: Epsilon
    high: Epsilon
    log_ratio_max: float


class Surrogate(NamedTuple):
    """A minibatch's loss, and what it says of the update.

    Args:
        loss: Scalar with gradient.
        kl: k3 estimate of a unit's KL to the acting policy, E[(r − 1) − ln r] (Schulman 2020).
        clipped: Share of ratios outside the trust region.
        ratio_error: Mean |r − 1| to the acting policy.
        extras: What was added to the loss, by name.
    """

    loss: Tensor
    kl: float
    clipped: float
    ratio_error: float
    extras: dict[str, float]

    def over_all(self, share: float) -> Surrogate:
        """Its numbers over the minibatches of all processes, of which this one's is a share."""
        if here().size == 1:
            return self
        kl, clipped, error, *extras = summed(
            share
            * torch.tensor(
                [self.kl, self.clipped, self.ratio_error, *self.extras.values()],
                dtype=torch.float64,
            )
        ).tolist()
        return Surrogate(self.loss, kl, clipped, error, dict(zip(self.extras, extras, strict=True)))


def surrogate(scored: Scored, adv: Tensor, rule: Rule, behind: Tensor | None = None) -> Surrogate:
    """The trust region's loss over units.

    ``behind`` decouples the policy that the update must stay near from the one that acted (Hilton
    et al. 2022, arXiv 2110.00641, eq. 3): the trust region holds r_θ/r_prox, and r_prox weighs
    the unit.

    Args:
        scored: The policy under training.
        adv: (R,), the denoising discount applied.
        rule: How ratios become a loss.
        behind: (R,) ln r of the proximal policy to the acting one, without gradient.
    """
    trusted = scored.trusted if behind is None else scored.trusted - behind
    ratio = _bounded(trusted, rule).exp()
    losses = LOSSES[rule.trust](ratio, adv, rule.low, rule.high)
    if behind is not None:
        losses = _bounded(behind, rule).exp() * losses
    loss = losses.mean()
    with torch.no_grad():
        gap, log_ratio = ratio - 1.0, scored.log_ratio
        outside = (gap > rule.high) | (-gap > rule.low)
        raw = log_ratio.exp()
        return Surrogate(
            loss,
            kl=float((raw - 1.0 - log_ratio).mean()),
            clipped=float(outside.float().mean()),
            ratio_error=float((raw - 1.0).abs().mean()),
            extras={},
        )


def _bounded(log_ratio: Tensor, rule: Rule) -> Tensor:
    """|ln r| bounded; log-probabilities never are, a clamp kills their gradient near the mean."""
    return log_ratio.clamp(-rule.log_ratio_max, rule.log_ratio_max)
