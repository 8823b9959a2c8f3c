"""Which creditor a run has: a critic, plain returns, or a comparison within groups."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator

from robo_rl.algo.advantages.critic_advantages import (
    Creditor,
    GroupCredit,
    ValueCredit,
    ValueCreditConfig,
)
from robo_rl.algo.advantages.monte_carlo import ReturnCredit
from robo_rl.policy.base import DenoisingPolicy


class CreditConfig(ValueCreditConfig):
    """Who credits; see ``ValueCreditConfig`` for the critic.

    ``credit``: advantages under a critic, or plain returns. With ``group_size`` G > 1 there is
    neither: G episodes from one start are compared with each other (GRPO).
    """

    credit: Literal["gae", "returns"] = "gae"
    group_size: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _one_way_to_credit(self) -> CreditConfig:
        if self.group_size > 1 and self.credit == "returns":
            raise ValueError("credit 'returns': with group_size > 1 episodes are compared instead")
        return self


def make_creditor(
    cfg: CreditConfig, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
) -> Creditor:
    """The one that is configured.

    Args:
        cfg: See ``CreditConfig``.
        policy: Whose observations and normaliser a critic shares.
        num_envs: B, for the running return scale.
        generator: Draws a critic's minibatches.
    """
    if cfg.group_size > 1:
        return GroupCredit(cfg.group_size)
    if cfg.credit == "returns":
        return ReturnCredit()
    return ValueCredit(cfg, policy, num_envs, generator)
