"""Calibrated conservative Q-learning: low values where nobody has been, but no lower than is true.

Shapes: B rows of a batch, M critics, D draws, E executed actions, A act_dim. Sources: Nakamoto et
al. 2023 (Cal-QL, arXiv 2303.05479, eq. 5.1) on Kumar et al. 2020 (CQL, arXiv 2006.04779, eq. 4),
here of the policy π that is to be improved, over whole chunks:

    ½·(Q(o, a) − rew − discount·(1 − terminated)·Q'(o', a'))²,  a' ~ π
    + α·(log mean_j exp Q(o, a_j) − Q(o, a))

where a_j are π's chunks and such as nobody would try. Where a_j is π's, Q counts as no less than
what the data came to from there: pushed down until then and not further, values are of the size of
what online learning will find, and it need not begin by unlearning them. Behind a cut nothing is
known and counts as 0: where rewards are costs, that holds back too much.

V is the mean of Q' over π's chunks: an advantage is over what π does.
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
    """``alpha`` α; ``num_policy_actions`` of the policy and as many ``num_random_actions`` within the data's range."""

    alpha: float = Field(default=1.0, ge=0.0)
    """Weight of the conservative term."""
    num_policy_actions: int = Field(default=4, ge=1)
    """Chunks of the policy that the conservative term compares with."""
    num_random_actions: int = Field(default=4, ge=1)
    """Random chunks that it compares with."""


class CalQl(OfflineCritics):
    """Critics of a policy's actions that think little of those that are not in the data.

    Args:
        cfg: See Config.
        policy: π.
        replay: The data.
        generator: Of batches, of π's noise and of the rule.
    """

    Config = CalQlConfig

    def __init__(
        self, cfg: CalQlConfig, policy: DenoisingPolicy, replay: Replay, generator: torch.Generator
    ) -> None:
        super().__init__(cfg, policy, replay, generator)
        self.alpha, self.num_random_actions = cfg.alpha, cfg.num_random_actions
        self.policy_actions = CachedPolicyActions(policy, replay, cfg.num_policy_actions, generator)
        self.returns_to_go = replay.return_to_go()
        tried = replay.transitions(replay.decisions).act
        self.low, self.high = tried.amin(dim=(0, 1)), tried.amax(dim=(0, 1))

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """See ``OfflineCritics``."""
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
        value_loss = self._learn_value(batch)  # by Q' as it is before the critic's step
        self.descend(td_loss + self.alpha * over)
        return {
            "value_loss": value_loss,
            "critic_loss": td_loss,
            "conservative_gap": over,
            "value": ahead.mean(),
        }

    def _logsumexp_q(self, batch: Transitions, seen: Tensor) -> Tensor:
        """The soft maximum of Q over chunks that are not the data's: (M, B)."""
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
