"""Implicit Q-learning: action values from data, evaluated only at actions of the data.

Shapes: B rows of a batch. Source: Kostrikov, Nair & Levine 2021 (arXiv 2110.06169), over whole
chunks:

    V(o)    ← the expectile τ of Q'(o, a) over the data's actions                        (eq. 5)
    Q(o, a) ← rew + discount·(1 − terminated)·V(o')                                      (eq. 6)

Q' is the target network. No value of an action outside the data is used.

Robust IQL (Yang et al. 2023, arXiv 2310.12955) is better for partly corrupted data.
``critic.head.kind: huber`` limits the effect of outliers in rewards and next observations. With at
least four critics, the aggregation ``quantile`` uses a low quantile of Q' instead of the minimum.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline_critics.base import OfflineCritics, OfflineCriticsConfig
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.policy.base import DenoisingPolicy


class IqlConfig(OfflineCriticsConfig):
    """``expectile`` τ: 0.5 gives the mean value of the data, 1 the best in the data."""

    expectile: float = Field(default=0.7, ge=0.5, lt=1.0)
    """Expectile τ of V; 0.5 is the mean, 1 the best in the data."""


class Iql(OfflineCritics):
    """Critics of the data's own actions.

    Args:
        cfg: See Config.
        policy: The critics share its specs, horizons and normaliser.
        replay: The data.
        generator: Draws batches, and subsets of critics.
    """

    Config = IqlConfig

    def __init__(
        self, cfg: IqlConfig, policy: DenoisingPolicy, replay: Replay, generator: torch.Generator
    ) -> None:
        super().__init__(cfg, policy, replay, generator)
        self.expectile = cfg.expectile

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Take one gradient step of Q and V on a batch; returns losses and the mean value."""
        batch = batch._replace(act=batch.act_with_masked_tail(self.generator))
        with torch.no_grad():
            worth = self.q_value(batch.obs, batch.act, self.generator)
        missing = worth - self.value(batch.obs)
        value_loss = expectile_loss(missing, self.expectile).mean()
        self.value_optimizer.step(value_loss)
        with torch.no_grad():
            ahead = self.value(batch.next_obs)
        critic_loss = self.td_step(batch, ahead)
        return {"value_loss": value_loss, "critic_loss": critic_loss, "value": ahead.mean()}


def expectile_loss(missing: Tensor, expectile: float) -> Tensor:
    """Expectile loss |τ − 1(u < 0)|·u² of u = Q' − V (eq. 5)."""
    weight = torch.where(missing < 0.0, 1.0 - expectile, expectile)
    return weight * missing.square()
