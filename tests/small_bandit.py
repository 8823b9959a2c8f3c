"""A bandit: a policy's decisions that each end their episode."""

from __future__ import annotations

import torch
from small_blocks import over_at_once
from small_policies import make_obs

from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.data.rollout import Rollout, executed_mask

TARGET = 0.5
ROWS = 512


def one_decision(policy, generator, mode, seed=0, rows=ROWS, copies=1) -> Rollout:
    """A bandit: every decision ends its episode; reward is −‖act − target‖² of what is executed."""
    drawn = make_obs(rows // copies, seed)
    obs = {name: o.float().repeat_interleave(copies, dim=0) for name, o in drawn.items()}
    with torch.no_grad():
        chain = policy.sample(obs, generator, single_step=mode is RatioMode.SINGLE_STEP)
    num_exec = torch.full((rows,), policy.exec_horizon)
    mask = executed_mask(num_exec, policy.horizon)
    rew = -((chain.act - TARGET).square() * mask).sum(dim=(1, 2))
    return over_at_once(obs, chain, num_exec, rew, discount=0.99)
