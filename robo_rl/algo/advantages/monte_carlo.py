"""Monte Carlo advantages: the normalized discounted return of a decision, without a critic."""

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
    """Discounted returns to the end of the episode or of the rollout.

    There is no bootstrap: an episode that the rollout cuts counts only the rewards inside the
    rollout. Use rollouts that are long compared with episodes, or a critic.
    """

    def compute_advantages(self, rollout: Rollout) -> Advantages:
        """Return normalized returns, computed as GAE with λ = 1 and zero values.

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
