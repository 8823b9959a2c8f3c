"""Plain returns: what followed, up to the episode's or the block's end."""

from __future__ import annotations

import torch

from robo_rl.algo.advantages.monte_carlo import MonteCarloEstimator
from robo_rl.data.rollout import Rollout

NO = torch.zeros(3, 2, dtype=torch.bool)


def test_returns_are_discounted_and_stop_where_the_episode_does():
    """Env 0 earns 1, 2, 4 at discount ½ and ends after the second: 1 + ½·2 = 2, 2, 4.

    Env 1 earns 0, 0, 8 in one episode: 2, 4, 8. The mean of the six is 22/6.
    """
    rew = torch.tensor([[1.0, 0.0], [2.0, 0.0], [4.0, 8.0]])
    ended = NO.clone()
    ended[1, 0] = True
    empty = torch.zeros(0)
    rollout = Rollout(
        obs={}, x=empty, log_prob=empty, k_star=None, rew=rew, terminated=ended, truncated=NO,
        valid=~NO, discount=torch.full((3, 2), 0.5), num_exec=torch.ones(3, 2), last_obs={},
        ended=empty, final_obs={},
    )  # fmt: skip
    adv = MonteCarloEstimator().compute_advantages(rollout).adv
    returns = torch.tensor([2.0, 2.0, 2.0, 4.0, 4.0, 8.0])
    torch.testing.assert_close(adv, (returns - 22 / 6) / returns.std())
