"""Blocks of one decision an env, each acted by a small policy and then over."""

from __future__ import annotations

import torch
from small_policies import make_obs

from robo_rl.data.rollout import Rollout, RolloutBuilder
from robo_rl.policy.base import DenoisingPolicy

ROWS = 48


@torch.no_grad()
def acted(policy: DenoisingPolicy, *, one_step: bool = False, rows: int = ROWS) -> Rollout:
    """A block of the policy; of every other chunk only the first action was executed."""
    obs = {name: o.to(policy.normalizer.dtype) for name, o in make_obs(rows).items()}
    chain = policy.sample(obs, torch.Generator().manual_seed(1), single_step=one_step)
    yes = torch.ones(rows, dtype=torch.bool)
    num_exec = torch.arange(rows) % policy.exec_horizon + 1
    mask = (torch.arange(policy.horizon) < num_exec[:, None])[:, None, :, None]
    columns = {
        "x": chain.x,
        "log_prob": (chain.log_prob * mask).sum(dim=(2, 3)),
        "rew": torch.zeros(rows),
        "terminated": yes,
        "truncated": ~yes,
        "valid": yes,
        "discount": torch.ones(rows),
        "num_exec": num_exec,
    }
    if chain.k_star is not None:
        columns["k_star"] = chain.k_star
    builder = RolloutBuilder()
    builder.add(obs, obs, columns)
    return builder.finish(obs)
