"""The clipped surrogate over units: likelihood ratios of chains, and PPO's loss on them.

Shapes: N decisions, R units of J denoising steps, H horizon, A act_dim, K denoising steps.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.before import Before
from robo_rl.algo.ratio import Units
from robo_rl.data.rollout import Rollout, executed
from robo_rl.policy.base import DenoisingPolicy


class ActorData(NamedTuple):
    """What the actor's minibatches are cut from.

    Args:
        obs: Name → (N, To, …).
        x: (N, K+1, H, A), the chains.
        log_prob: (N, K), of the executed part, at the time of acting.
        adv: (N,), normalised.
        executed: (N, H, 1) bool, the actions of the chunk that were executed.
        before: What the noise followed, where it is correlated in time.
    """

    obs: dict[str, Tensor]
    x: Tensor
    log_prob: Tensor
    adv: Tensor
    executed: Tensor
    before: Before | None = None

    @classmethod
    def of(cls, rollout: Rollout, adv: Tensor) -> ActorData:
        """The valid decisions of a block, with their advantages (T, B)."""
        adv = rollout.rows(adv)
        x = rollout.rows(rollout.x)
        return cls(
            {name: rollout.rows(tensor) for name, tensor in rollout.obs.items()},
            x,
            rollout.rows(rollout.log_prob),
            (adv - adv.mean()) / (adv.std() + 1e-8),
            executed(rollout.rows(rollout.num_exec), x.shape[2]),
            Before.of(rollout),
        )


class Surrogate(NamedTuple):
    """A minibatch's loss, and what it says of the update.

    Args:
        loss: Scalar with gradient.
        kl: k3 estimate of a unit's KL to the acting policy, E[(r − 1) − ln r] (Schulman 2020).
        clipped: Share of ratios outside the clip range.
        ratio_error: Largest |r − 1|.
    """

    loss: Tensor
    kl: float
    clipped: float
    ratio_error: float


def unit_log_prob(policy: DenoisingPolicy, data: ActorData, units: Units) -> Tensor:
    """Log-probability of units, summed over their steps and the executed actions: (R,)."""
    terms = units.k.shape[1]
    rows, k = units.row.repeat_interleave(terms), units.k.flatten()
    embedding = policy.encode({name: o[units.row] for name, o in data.obs.items()})
    kernel = policy.kernel(embedding.repeat_interleave(terms, dim=0), k, data.x[rows, k])
    if data.before is not None:
        before = data.before.noise(policy, units)
        kernel = policy.follow(kernel, before, data.before.follows[rows])
    elements = kernel.log_prob(data.x[rows, k + 1]) * data.executed[rows]
    return elements.sum(dim=(1, 2)).view(-1, terms).sum(-1)


def clipped_surrogate(
    policy: DenoisingPolicy, data: ActorData, units: Units, weight: Tensor | float, clip: float
) -> Surrogate:
    """−E min(r·A, clip(r, 1 ± ε)·A) over units (Schulman et al. 2017, arXiv 1707.06347, eq. 7).

    Args:
        policy: Under training.
        data: The block.
        units: The minibatch.
        weight: (R,), multiplies the advantages: the denoising discount.
        clip: ε in joint units.
    """
    old = data.log_prob[units.row[:, None], units.k].sum(-1)
    log_ratio = unit_log_prob(policy, data, units) - old
    ratio = log_ratio.exp()
    adv = data.adv[units.row] * weight
    loss = -torch.minimum(ratio * adv, ratio.clamp(1.0 - clip, 1.0 + clip) * adv).mean()
    with torch.no_grad():
        error = (ratio - 1.0).abs()
        return Surrogate(
            loss,
            kl=float((ratio - 1.0 - log_ratio).mean()),
            clipped=float((error > clip).float().mean()),
            ratio_error=float(error.max()),
        )
