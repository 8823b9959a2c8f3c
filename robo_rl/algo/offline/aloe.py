"""Advantage-weighted cloning with critics that evaluate the current policy.

ALOE (arXiv 2602.12691) is ``Awr`` with TD critics of the current policy, over whole chunks. A rule
reduces the ensemble to one value; it should be pessimistic.

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
    """Clones a policy with weights by the advantage over the policy's own chunks.

    Args:
        cfg: See Config.
        inputs: See ``OfflineInputs``.
    """

    class Config(Awr.Config):
        """Settings of ``Awr``, and of the TD critics.

        The temperature is in units of the initial critics' advantage spread.
        """

        critics: TdCritics.Config = TdCritics.Config()
        """Settings of the TD critics that are trained along with the policy."""

    state_parts = ("td_critics",)

    def __init__(self, cfg: Config, inputs: OfflineInputs) -> None:
        super().__init__(cfg, inputs)
        self.td_critics, self.minibatch = (
            TdCritics(cfg.critics, inputs.critics),
            cfg.critics.minibatch,
        )

    def step(self) -> dict[str, float]:
        """Take one gradient step of critics and policy; returns losses.

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
        """Advantages (B,) of the batch's chunks over the policy's chunks."""
        act, own = (
            batch.act_with_masked_tail(self.generator),
            act_normalized(self.policy, batch.obs, self.generator),
        )
        twice = {name: torch.cat([each, each]) for name, each in batch.obs.items()}
        both = self.td_critics.q_value(twice, torch.cat([act, own]), self.generator)
        did, does = both.chunk(2)
        return did - does
