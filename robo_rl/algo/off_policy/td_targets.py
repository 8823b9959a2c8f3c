"""What action values are moved towards: a value, or the law of the return (C51).

Shapes: B rows of a batch, M critics, n bins of a histogram, H horizon, A act_dim. A transition's
target is rew + discount·(1 − terminated)·(Q'(o', a') − cost), with Q' of an ensemble.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.critic.q import QCritic, td_target
from robo_rl.data.replay import Transitions


class Backup(Protocol):
    """How critics learn of what came next."""

    def targets(self, batch: Transitions, act: Tensor, cost: Tensor) -> Tensor:
        """What they are moved towards if ``act`` (B, H, A) comes next, at a cost (B,)."""
        ...

    def loss(self, batch: Transitions, act: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Loss (M, B) of being elsewhere, and the mean (B,) of where they are moved to."""
        ...


class ScalarBackup:
    """Targets are values (B,).

    Args:
        critic: Learns.
        target: Its average, which is asked.
        rule: From the ensemble's values to one.
        generator: Of the rule.
    """

    def __init__(
        self,
        critic: QCritic,
        target: QCritic,
        rule: EnsembleAggregation,
        generator: torch.Generator,
    ) -> None:
        self.critic, self.target, self.rule, self.generator = critic, target, rule, generator

    @torch.no_grad()
    def targets(self, batch: Transitions, act: Tensor, cost: Tensor) -> Tensor:
        """See ``Backup``."""
        value = self.rule(self.target(batch.next_obs, act), self.generator)
        return td_target(batch.rew, batch.discount, batch.terminated, value - cost)

    def loss(self, batch: Transitions, act: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Backup``."""
        wanted = self.targets(batch, act, cost)
        return self.critic.loss(batch.obs, batch.act, wanted), wanted


class CategoricalBackup:
    """Targets are laws of the return, probabilities (B, n) of a histogram's bins.

    The successor's law, moved and shrunk as its value would be, projected onto the bins again
    (C51: Bellemare et al. 2017, arXiv 1707.06887, algorithm 1). Of an ensemble, the law of the
    member whose mean is the least, or the mixture of all: what min and mean are of values.

    Args:
        critic: Learns; its heads are histograms.
        target: Its average, which is asked.
        rule: Whose law counts.
        generator: Of the rule.

    Raises:
        ConfigError: The rule is no mixture of members.
    """

    def __init__(
        self,
        critic: QCritic,
        target: QCritic,
        rule: EnsembleAggregation,
        generator: torch.Generator,
    ) -> None:
        self.critic, self.target, self.rule, self.generator = critic, target, rule, generator
        self.head = critic.histogram
        rule.check_is_mixture()

    @torch.no_grad()
    def targets(self, batch: Transitions, act: Tensor, cost: Tensor) -> Tensor:
        """See ``Backup``."""
        centres, laws = self.head.centres, self.target.distributions(batch.next_obs, act)
        shares = self.rule.member_weights(laws @ centres, self.generator)
        law = (shares.unsqueeze(-1) * laws).sum(dim=0)
        rew, discount, terminated = (
            part.unsqueeze(-1) for part in (batch.rew, batch.discount, batch.terminated)
        )
        values = td_target(rew, discount, terminated, centres - cost.unsqueeze(-1))
        return self.head.project(values, law)

    def loss(self, batch: Transitions, act: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Backup``."""
        law = self.targets(batch, act, cost)
        return self.critic.distribution_loss(batch.obs, batch.act, law), law @ self.head.centres


def make_backup(
    critic: QCritic, target: QCritic, rule: EnsembleAggregation, generator: torch.Generator
) -> Backup:
    """Of values, or of laws where the critic learns these.

    Raises:
        ConfigError: See ``CategoricalBackup``.
    """
    learns = CategoricalBackup if critic.distributional else ScalarBackup
    return learns(critic, target, rule, generator)
