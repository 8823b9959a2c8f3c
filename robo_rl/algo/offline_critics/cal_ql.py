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

from robo_rl.algo.offline_critics.base import CriticsConfig, LoggedCritics
from robo_rl.algo.policy_samples import Answers
from robo_rl.critic.q import td_target
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import Transitions
from robo_rl.policy.base import DenoisingPolicy


class CalQlConfig(CriticsConfig):
    """``alpha`` α; ``draws`` of the policy and as many ``anywhere`` within the data's range."""

    alpha: float = Field(default=1.0, ge=0.0)
    draws: int = Field(default=4, ge=1)
    anywhere: int = Field(default=4, ge=1)


class CalQl(LoggedCritics):
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
        self.alpha, self.anywhere = cfg.alpha, cfg.anywhere
        self.answers = Answers(policy, replay, cfg.draws, generator)
        self.known = replay.return_to_go()
        tried = replay.transitions(replay.decisions).act
        self.low, self.high = tried.amin(dim=(0, 1)), tried.amax(dim=(0, 1))

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """See ``LoggedCritics``."""
        with torch.no_grad():
            follows = self.answers.one(batch.next_row, self.generator)
            ahead = self.worth(batch.next_obs, follows, self.generator)
            wanted = td_target(batch.rew, batch.discount, batch.terminated, ahead)
        act, seen = batch.judged_act(self.generator), self.critic.encode(batch.obs)
        td_loss = self.critic.loss_of(seen, act, wanted).sum(dim=0).mean()
        over = (self._mean_beyond(batch, seen) - self.critic.values(seen, act)).sum(dim=0).mean()
        self.descents["critic"].step(td_loss + self.alpha * over)
        value_loss = self._learn_value(batch)
        return {
            "value_loss": value_loss,
            "critic_loss": td_loss,
            "over": over,
            "value": ahead.mean(),
        }

    def _mean_beyond(self, batch: Transitions, seen: Tensor) -> Tensor:
        """The soft maximum of Q over chunks that are not the data's: (M, B)."""
        own = self.answers.all(batch.row)
        reach = (self.anywhere, *own.shape[1:])
        drawn = torch.rand(reach, generator=self.generator).to(own)
        chunks = torch.cat([own, self.low + drawn * (self.high - self.low)])
        many = seen.repeat(len(chunks), 1)
        values = self.critic.values(many, chunks.flatten(0, 1)).unflatten(1, chunks.shape[:2])
        pi, rest = values.split([len(own), self.anywhere], dim=1)
        pi = pi.maximum(self.known[batch.row].to(pi))
        return torch.cat([pi, rest], dim=1).logsumexp(dim=1) - math.log(len(chunks))

    def _learn_value(self, batch: Transitions) -> Tensor:
        with torch.no_grad():
            own = self.answers.one(batch.row, self.generator)
            worth = self.worth(batch.obs, own, self.generator)
        loss = 0.5 * (worth - self.value(batch.obs)).square().mean()
        self.descents["value"].step(loss)
        return loss
