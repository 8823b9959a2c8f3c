"""Selects the advantage estimator of a run: GAE, Monte Carlo, or group-relative."""

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
    """Selects the advantage estimator; ``GaeConfig`` holds the settings of the critic.

    With ``group_size`` G > 1 the group-relative estimator (GRPO) replaces both choices of
    ``advantage``. It compares G episodes from one start with each other.
    """

    advantage: Literal["gae", "monte_carlo"] = "gae"
    """Advantage estimator: ``gae`` uses a value critic, ``monte_carlo`` uses plain returns."""
    group_size: int = Field(default=1, ge=1)
    """Episodes from one start that are compared with each other (GRPO); 1 is off."""

    @model_validator(mode="after")
    def _one_way_to_credit(self) -> AdvantageConfig:
        if self.group_size > 1 and self.advantage == "monte_carlo":
            raise ValueError(
                "advantage 'monte_carlo': with group_size > 1 episodes are compared instead"
            )
        if self.critic_reads == "embedding" and self.critic.sees:
            raise ValueError("critic.sees: a critic of the policy's embedding reads that alone")
        if not self.has_critic:
            without = "group_size > 1" if self.group_size > 1 else f"advantage '{self.advantage}'"
            if self.critic_lambda is not None:
                raise ValueError(f"critic_lambda: {without} has no critic; leave it out")
            if self.critic_reads != "state":
                raise ValueError(f"critic_reads: {without} has no critic; leave it out")
        return self

    @property
    def has_critic(self) -> bool:
        """Whether the estimator learns values; groups and plain returns need none."""
        return self.group_size == 1 and self.advantage == "gae"


def make_advantage_estimator(
    cfg: AdvantageConfig, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
) -> AdvantageEstimator:
    """Return the configured advantage estimator.

    Args:
        cfg: See ``AdvantageConfig``.
        policy: The policy; a critic shares its observation spec and normaliser.
        num_envs: B, for the running return scale.
        generator: Draws a critic's minibatches.
    """
    if cfg.group_size > 1:
        return GroupRelativeEstimator(cfg.group_size)
    if cfg.advantage == "monte_carlo":
        return MonteCarloEstimator()
    return GaeEstimator(cfg, policy, num_envs, generator)
