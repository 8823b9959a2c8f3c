"""Blocks of one decision an env, each acted by a small policy and then over."""

from __future__ import annotations

import torch
from small_policies import make_obs
from torch import Tensor

from robo_rl.data.rollout import Rollout, RolloutBuilder, executed_mask
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Chain

ROWS = 48


@torch.no_grad()
def acted(policy: DenoisingPolicy, *, one_step: bool = False, rows: int = ROWS) -> Rollout:
    """A block of the policy; of every other chunk only the first action was executed."""
    obs = {name: o.to(policy.normalizer.dtype) for name, o in make_obs(rows).items()}
    chain = policy.sample(obs, torch.Generator().manual_seed(1), single_step=one_step)
    num_exec = torch.arange(rows) % policy.exec_horizon + 1
    return over_at_once(obs, chain, num_exec, torch.zeros(rows))


def over_at_once(
    obs: dict[str, Tensor], chain: Chain, num_exec: Tensor, rew: Tensor, discount: float = 1.0
) -> Rollout:
    """Chains of envs whose episodes end with them."""
    yes = torch.ones(len(rew), dtype=torch.bool)
    mask = executed_mask(num_exec, chain.x.shape[2])[:, None]
    columns = {
        "x": chain.x,
        "log_prob": (chain.log_prob * mask).sum(dim=(2, 3)),
        "rew": rew,
        "terminated": yes,
        "truncated": ~yes,
        "valid": yes,
        "discount": torch.full((len(rew),), discount),
        "num_exec": num_exec,
    }
    if chain.k_star is not None:
        columns["k_star"] = chain.k_star
    builder = RolloutBuilder()
    builder.add(obs, obs, columns)
    return builder.finish(obs)
