"""Credit without a critic: what followed a decision, as far as the block shows it."""

from __future__ import annotations

from typing import Any

import torch

from robo_rl.algo.advantages.critic_advantages import Credit, compared, stood_in
from robo_rl.algo.advantages.gae import demand_finite, gae
from robo_rl.data.rollout import Rollout


class ReturnCredit:
    """Discounted returns to the end of the episode or of the block; see ``credit.Creditor``.

    Nothing is bootstrapped, so an episode that the block cuts is credited with what it reached:
    use blocks that are long beside episodes, or a critic.
    """

    warmup_updates = 0

    def assign(self, rollout: Rollout) -> Credit:
        """Returns as ``compared``: generalised advantages with λ = 1 and no values.

        Raises:
            PluginError: A reward is not finite.
        """
        demand_finite(rollout.rew)
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
        return stood_in(compared(rollout, returns))

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing."""
        del state
