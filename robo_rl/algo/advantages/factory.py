"""Which creditor a run has: a critic, plain returns, or a comparison within groups."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator

from robo_rl.algo.advantages.critic_advantages import (
    AdvantageEstimator,
    GaeConfig,
    GaeEstimator,
    GroupRelativeEstimator,
)
from robo_rl.algo.advantages.monte_carlo import MonteCarloEstimator
from robo_rl.policy.base import DenoisingPolicy


class AdvantageConfig(GaeConfig):
    """Who credits; see ``GaeConfig`` for the critic.

    ``advantage``: advantages under a critic, or plain returns. With ``group_size`` G > 1 there is
    neither: G episodes from one start are compared with each other (GRPO).
    """

    advantage: Literal["gae", "monte_carlo"] = "gae"
    """Estimator of advantages: under a critic, or plain monte_carlo."""
    group_size: int = Field(default=1, ge=1)
    """Episodes that start alike and are compared with each other (GRPO); 1 is off."""

    @model_validator(mode="after")
    def _one_way_to_credit(self) -> AdvantageConfig:
        if self.group_size > 1 and self.advantage == "monte_carlo":
            raise ValueError(
                "advantage 'monte_carlo': with group_size > 1 episodes are compared instead"
            )
        return self


def make_advantage_estimator(
    cfg: AdvantageConfig, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
) -> AdvantageEstimator:
    """The one that is configured.

    Args:
        cfg: See ``AdvantageConfig``.
        policy: Whose observations and normaliser a critic shares.
        num_envs: B, for the running return scale.
        generator: Draws a critic's minibatches.
    """
    if cfg.group_size > 1:
        return GroupRelativeEstimator(cfg.group_size)
    if cfg.advantage == "monte_carlo":
        return MonteCarloEstimator()
    return GaeEstimator(cfg, policy, num_envs, generator)
