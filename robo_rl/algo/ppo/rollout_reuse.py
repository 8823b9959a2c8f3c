"""Earlier rollouts that an update learns from too, as in GePPO.

Shapes: T decisions, B envs, N valid decisions, K denoising steps, M earlier rollouts.

An update sees the latest rollout and M earlier ones. The trust region is centred at the acting
policy π_k for all of them. A decision of an earlier policy π_{k−i} has the weight π_k/π_{k−i}, and
its advantages and returns are those of V-trace (``advantages.gae``). Each decision is then learnt
from in M + 1 updates, at M + 1 times the cost of an update.

Source: Queeney, Paschalidis and Cassandras 2021 (GePPO), arXiv 2111.00072, whose policies are
equally weighted here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.algo.ppo.actor_batch import ActorBatch, log_prob_of_all
from robo_rl.algo.ppo.ratio_units import RatioMode, make_units
from robo_rl.core.stateful import Stateful
from robo_rl.data.rollout import Rollout, join_rollouts
from robo_rl.policy.base import DenoisingPolicy


class RolloutReuse(Stateful):
    """The latest rollouts of a run, joined to each new one.

    Args:
        count: M, at least 1.
        ratio: The sample unit of the likelihood ratio.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("stored",)

    def __init__(self, count: int, ratio: RatioMode) -> None:
        self.count, self.ratio = count, ratio
        self.earlier = list[Rollout]()

    def join(self, rollout: Rollout, policy: DenoisingPolicy) -> Rollout:
        """Return a rollout with the earlier ones beside it along B, and keep it for the next.

        Args:
            rollout: Collected by ``policy``.
            policy: The acting policy.
        """
        scored = [self._scored(each, policy) for each in self.earlier]
        self.earlier = [rollout, *self.earlier][: self.count]
        if not scored:
            return rollout
        fresh = replace(rollout, policy_log_ratio=torch.zeros_like(rollout.rew))
        return join_rollouts([fresh, *scored])

    def clear(self) -> None:
        """Forget all rollouts, such as after a rollback of the policy."""
        self.earlier = []

    @property
    def stored(self) -> dict[str, Any]:
        """Tensors of the earlier rollouts."""
        return {
            str(number): {field.name: getattr(each, field.name) for field in fields(each)}
            for number, each in enumerate(self.earlier)
        }

    @stored.setter
    def stored(self, found: Mapping[str, Any]) -> None:
        self.earlier = [Rollout(**found[name]) for name in sorted(found, key=int)]

    def _scored(self, rollout: Rollout, policy: DenoisingPolicy) -> Rollout:
        """Return a rollout with the log-ratio of a policy to the one that collected it."""
        found = torch.zeros_like(rollout.rew)
        found[rollout.valid] = log_ratio_of_decisions(rollout, policy, self.ratio).to(found)
        return replace(rollout, policy_log_ratio=found)


def log_ratio_of_decisions(rollout: Rollout, policy: DenoisingPolicy, ratio: RatioMode) -> Tensor:
    """Return ln r (N,) of the executed chains of a rollout, between a policy and its collector.

    It is the sum over all trained denoising steps, of which ``single_step`` has one.
    """
    data = ActorBatch.of(rollout, rollout.rows(rollout.rew))
    steps = policy.trainable_steps.nonzero().flatten().to(data.adv.device)
    k_star = None if rollout.k_star is None else rollout.rows(rollout.k_star)
    units = make_units(ratio, len(data.adv), steps, k_star)
    gap = log_prob_of_all(policy, data, units) - data.log_prob[units.row[:, None], units.k]
    return torch.zeros_like(data.adv).index_add(0, units.row, gap.sum(-1).to(data.adv))
