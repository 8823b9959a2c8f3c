"""Advantage-weighted cloning by critics that follow the policy: it is evaluated while it is made.

As ``Awr``, but for the critics, which learn what the policy as it stands would do next, over whole
chunks, and are made one value of by a rule that should be pessimistic (ALOE, arXiv 2602.12691):

    Q(o, a) ← rew + discount·(1 − terminated)·rule of Q'(o', a'),  a' ~ the policy
    advantage of a row = Q(o, a) − Q(o, a~),  a~ ~ the policy

Shapes: B rows of a batch, H horizon, A act_dim.
"""

from __future__ import annotations

import torch
from torch import Tensor

from robo_rl.algo.offline.awr import Awr
from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.offline_critics.td_critics import TdCritics
from robo_rl.algo.policy_samples import act_normalized
from robo_rl.data.transitions import Transitions


class Aloe(Awr):
    """Goes on cloning a policy, rows weighted by what they are worth beside it.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(Awr.Config):
        """As ``Awr``, and its own critics.

        The temperature is in units of the spread of the advantages that these begin from.
        """

        critics: TdCritics.Config = TdCritics.Config()
        """Settings of the critics that learn along with the policy."""

    state_parts = ("td_critics",)

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, inputs)
        self.td_critics, self.minibatch = (
            TdCritics(cfg.critics, inputs.critics),
            cfg.critics.minibatch,
        )

    def step(self) -> dict[str, float]:
        """One gradient step of critics and policy; returns losses.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        batch = self.replay.sample(self.minibatch, self.generator)
        with torch.no_grad():
            follows = act_normalized(self.policy, batch.next_obs, self.generator)
            ahead = self.td_critics.next_q(batch.next_obs, follows, self.generator)
        critic_loss = self.td_critics.step(batch, ahead, self.generator)
        return {"critic_loss": float(critic_loss), **super().step()}

    @torch.no_grad()
    def advantage(self, batch: Transitions) -> Tensor:
        """See ``Awr``."""
        act, own = (
            batch.act_with_masked_tail(self.generator),
            act_normalized(self.policy, batch.obs, self.generator),
        )
        twice = {name: torch.cat([each, each]) for name, each in batch.obs.items()}
        both = self.td_critics.q_value(twice, torch.cat([act, own]), self.generator)
        did, does = both.chunk(2)
        return did - does
