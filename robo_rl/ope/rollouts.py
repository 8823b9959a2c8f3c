"""What a policy would come to in a learnt world: it acts there, from the starts of the data.

Nothing is bootstrapped from states of the data, as fitted Q evaluation does: a policy that leaves
them is followed to where the model thinks it goes. Rewards and ends are taken as the model expects
them, so that nothing is drawn but the policy's own noise. Each member of the ensemble is a world of
its own, and its value that of one resample of the data (Hao et al. 2021, arXiv 2102.03607; model
rollouts as RL-100's gate has them: arXiv 2510.14830).

Shapes: M members, E episodes, D numbers of an observation with its history, H horizon, A act_dim.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from robo_rl.algo.answers import Judged
from robo_rl.errors import DataError
from robo_rl.ope.fqe import Estimate
from robo_rl.ope.resample import Resample
from robo_rl.world.dynamics import Dynamics


@torch.no_grad()
def rollout_estimate(
    model: Dynamics,
    policy: Judged,
    starts: Tensor,
    resample: Resample,
    *,
    limit: int,
    gamma: float,
    generator: torch.Generator,
) -> Estimate:
    """Each member's mean over the starts of its own episodes.

    Args:
        model: Its chunks are in the units of the policy's normaliser.
        policy: As it is evaluated.
        starts: (E, D), the first observations of the episodes.
        resample: With as many members as the model.
        limit: Env steps of an episode.
        gamma: Discount per env step.
        generator: The policy's noise.

    Raises:
        DataError: A value is not finite.
    """
    seen = starts.expand(model.members, *starts.shape)
    goes_on, value = torch.ones(seen.shape[:2]), torch.zeros(seen.shape[:2])
    steps = model.exec_horizon
    for chunk in range(math.ceil(limit / steps)):
        share = min(1.0, limit / steps - chunk)  # the last chunk may reach behind the limit
        ahead = model(seen, _acted(model, policy, seen, generator))
        value = value + share * gamma ** (chunk * steps) * goes_on * ahead.rew
        goes_on = goes_on * (1.0 - ahead.ends.sigmoid())
        seen = model.moved(seen, ahead)
    members = resample.mean(value)
    if not bool(members.isfinite().all()):
        raise DataError("the policy's values in the learnt world are not finite")
    return Estimate(members)


def _acted(model: Dynamics, policy: Judged, seen: Tensor, generator: torch.Generator) -> Tensor:
    act = policy.act(model.named(seen.flatten(0, 1)), generator)
    return policy.normalizer.normalize("act", act).unflatten(0, seen.shape[:2])
