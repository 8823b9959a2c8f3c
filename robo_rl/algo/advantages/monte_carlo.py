"""Credit without a critic: what followed a decision, as far as the block shows it."""

from __future__ import annotations

import torch

from robo_rl.algo.advantages.critic_advantages import (
    AdvantageEstimator,
    Advantages,
    normalize_advantages,
    pad_empty_rank,
)
from robo_rl.algo.advantages.gae import check_finite_returns, gae
from robo_rl.data.rollout import Rollout


class MonteCarloEstimator(AdvantageEstimator):
    """Discounted returns to the end of the episode or of the block; see ``credit.AdvantageEstimator``.

    Nothing is bootstrapped, so an episode that the block cuts is credited with what it reached:
    use blocks that are long beside episodes, or a critic.
    """

    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Returns as ``compared``: generalised advantages with λ = 1 and no values.

        Raises:
            PluginError: A reward is not finite.
        """
        check_finite_returns(rollout.rew)
        nothing = torch.zeros_like(rollout.rew)
        returns, _ = gae(
            rollout.rew,
            nothing,
            nothing,
            terminated=rollout.terminated,
            truncated=rollout.truncated,
            valid=rollout.valid,
            discount=rollout.discount,
            lam=1.0,
        )
        return pad_empty_rank(normalize_advantages(rollout, returns))
