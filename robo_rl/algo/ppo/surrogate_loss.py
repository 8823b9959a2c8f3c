"""The surrogate loss of a minibatch of units, and its metrics.

Shapes: R units of J denoising steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.ppo.likelihood_ratio import LogRatios
from robo_rl.algo.ppo.trust_region import LOSSES, Epsilon, TrustRegion
from robo_rl.distributed.process_group import all_gather_rows, all_reduce_sum, rank_info
from robo_rl.optim.robust_kl import RobustKl


class TrustRegionConfig(NamedTuple):
    """Settings that turn ratios into a loss.

    Args:
        trust_region: The trust region.
        low: ε below 1, one number or (R,).
        high: ε above 1, of the same kind.
        log_ratio_max: Bound of |ln r| in the loss; a unit beyond it has no gradient.
    """

    trust_region: TrustRegion
    low: Epsilon
    high: Epsilon
    log_ratio_max: float


class SurrogateLoss(NamedTuple):
    """A minibatch's loss and metrics on one device; scalars except for ``kl``.

    Args:
        loss: Loss with gradient.
        kl: (R,) KL of each unit to the acting policy; see ``LogRatios``.
        clip_fraction: Share of ratios outside the trust region.
        ratio_error: Mean |r − 1| to the acting policy.
        extras: Additional terms of the loss, by name.
    """

    loss: Tensor
    kl: Tensor
    clip_fraction: Tensor
    ratio_error: Tensor
    extras: dict[str, Tensor]

    def metrics(self, share: float = 1.0, kl_trim: float = 0.0) -> SurrogateMetrics:
        """Return the metrics over all processes, in one transfer from the device.

        Args:
            share: This process's share of the minibatch (``Minibatch.weight``).
            kl_trim: See ``winsorized_mean``; its rows are those of all processes.
        """
        scalars = torch.stack([self.clip_fraction, self.ratio_error, *self.extras.values()])
        found = torch.cat([self.kl.double(), scalars.detach().double()]).cpu()
        kl, numbers = found[: len(self.kl)], found[len(self.kl) :]
        if rank_info().world_size > 1:
            numbers = all_reduce_sum(share * numbers)
            kl = all_gather_rows(kl if share else kl[:0])
        clip_fraction, ratio_error, *extras = numbers.tolist()
        named = dict(zip(self.extras, extras, strict=True))
        return SurrogateMetrics(RobustKl.of(kl, kl_trim), clip_fraction, ratio_error, named)


class SurrogateMetrics(NamedTuple):
    """The metrics of a ``SurrogateLoss`` as numbers on the CPU."""

    kl: RobustKl
    clip_fraction: float
    ratio_error: float
    extras: dict[str, float]


def surrogate(
    scored: LogRatios,
    adv: Tensor,
    rule: TrustRegionConfig,
    proximal_log_ratio: Tensor | None = None,
) -> SurrogateLoss:
    """Return the trust region's loss over units.

    ``proximal_log_ratio`` centres the trust region on a proximal policy instead of the acting
    policy (Hilton et al. 2022, arXiv 2110.00641, eq. 3). The trust region then bounds r_θ/r_prox,
    and r_prox weighs the unit.

    Args:
        scored: Ratios of the policy under training.
        adv: (R,), with the denoising discount applied.
        rule: Settings of the loss.
        proximal_log_ratio: (R,) ln r of the proximal policy to the acting one, without gradient.
    """
    trusted = (
        scored.trust_region_log_ratio
        if proximal_log_ratio is None
        else scored.trust_region_log_ratio - proximal_log_ratio
    )
    ratio = _bounded(trusted, rule).exp()
    losses = LOSSES[rule.trust_region](ratio, adv, rule.low, rule.high)
    if proximal_log_ratio is not None:
        losses = _bounded(proximal_log_ratio, rule).exp() * losses
    loss = losses.mean()
    with torch.no_grad():
        gap = ratio - 1.0
        outside = (gap > rule.high) | (-gap > rule.low)
        return SurrogateLoss(
            loss,
            kl=scored.kl,
            clip_fraction=outside.float().mean(),
            ratio_error=(scored.log_ratio.exp() - 1.0).abs().mean(),
            extras={},
        )


def _bounded(log_ratio: Tensor, rule: TrustRegionConfig) -> Tensor:
    """Clip |ln r|; clamped log-probabilities would lose their gradient near the mean."""
    return log_ratio.clamp(-rule.log_ratio_max, rule.log_ratio_max)
