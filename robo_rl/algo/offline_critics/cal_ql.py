"""Calibrated conservative Q-learning: low values outside the data, with a lower bound.

Shapes: B rows of a batch, M critics, D draws, E executed actions, A act_dim. Sources: Nakamoto et
al. 2023 (Cal-QL, arXiv 2303.05479, eq. 5.1) on Kumar et al. 2020 (CQL, arXiv 2006.04779, eq. 4).
Here π is the policy to improve, and actions are whole chunks:

    ½·(Q(o, a) − rew − discount·(1 − terminated)·Q'(o', a'))²,  a' ~ π
    + α·(log mean_j exp Q(o, a_j) − Q(o, a))

The a_j are chunks of π and random chunks. For chunks of π, the return-to-go of the data is a lower
bound of Q in the conservative term. Values therefore keep the scale of true returns, which online
learning starts from. Returns beyond a truncation are unknown and count as 0. If rewards are costs,
this bound is too high.

V is the mean of Q' over π's chunks, so an advantage is relative to π.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.offline_critics.base import OfflineCritics, OfflineCriticsConfig
from robo_rl.algo.policy_samples import CachedPolicyActions
from robo_rl.critic.q import td_target
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.policy.base import DenoisingPolicy


class CalQlConfig(OfflineCriticsConfig):
    """Weight α of the conservative term, and the number of chunks that it compares."""

    alpha: float = Field(default=1.0, ge=0.0)
    """Weight of the conservative term."""
    num_policy_actions: int = Field(default=4, ge=1)
    """Number of policy chunks in the conservative term."""
    num_random_actions: int = Field(default=4, ge=1)
    """Number of random chunks in the conservative term."""


class CalQl(OfflineCritics):
    """Conservative critics of a policy, with low values outside the data.

    Args:
        cfg: See Config.
        policy: π.
        replay: The data.
        generator: Draws batches, π's noise and subsets of critics.
    """

    Config = CalQlConfig

    def __init__(
        self, cfg: CalQlConfig, policy: DenoisingPolicy, replay: Replay, generator: torch.Generator
    ) -> None:
        super().__init__(cfg, policy, replay, generator)
        self.alpha, self.num_random_actions = cfg.alpha, cfg.num_random_actions
        self.policy_actions = CachedPolicyActions(policy, replay, cfg.num_policy_actions, generator)
        self.returns_to_go = replay.return_to_go()
        tried = replay.actions()
        self.low, self.high = tried.amin(dim=(0, 1)), tried.amax(dim=(0, 1))

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Take one gradient step of Q and V on a batch; returns losses and the mean value."""
        with torch.no_grad():
            follows = self.policy_actions.sample(batch.next_row, self.generator)
            ahead = self.q_value(batch.next_obs, follows, self.generator)
            wanted = td_target(batch.rew, batch.discount, batch.terminated, ahead)
        act, seen = batch.act_with_masked_tail(self.generator), self.critic.encode(batch.obs)
        td_loss = self.critic.loss_from_features(seen, act, wanted).sum(dim=0).mean()
        over = (
            (self._logsumexp_q(batch, seen) - self.critic.values_from_features(seen, act))
            .sum(dim=0)
            .mean()
        )
        value_loss = self._learn_value(batch)  # uses Q' before the critic's step
        self.descend(td_loss + self.alpha * over)
        return {
            "value_loss": value_loss,
            "critic_loss": td_loss,
            "conservative_gap": over,
            "value": ahead.mean(),
        }

    def _logsumexp_q(self, batch: Transitions, seen: Tensor) -> Tensor:
        """Log-mean-exp of Q (M, B) over policy chunks and random chunks."""
        own = self.policy_actions.all(batch.row)
        reach = (self.num_random_actions, *own.shape[1:])
        drawn = torch.rand(reach, generator=self.generator, device=self.generator.device).to(own)
        chunks = torch.cat([own, self.low + drawn * (self.high - self.low)])
        many = seen.repeat(len(chunks), 1)
        values = self.critic.values_from_features(many, chunks.flatten(0, 1)).unflatten(
            1, chunks.shape[:2]
        )
        pi, rest = values.split([len(own), self.num_random_actions], dim=1)
        pi = pi.maximum(self.returns_to_go[batch.row].to(pi))
        return torch.cat([pi, rest], dim=1).logsumexp(dim=1) - math.log(len(chunks))

    def _learn_value(self, batch: Transitions) -> Tensor:
        with torch.no_grad():
            own = self.policy_actions.sample(batch.row, self.generator)
            worth = self.q_value(batch.obs, own, self.generator)
        loss = 0.5 * (worth - self.value(batch.obs)).square().mean()
        self.value_optimizer.step(loss)
        return loss
