"""TD targets of action values: a scalar, or a distribution of the return (C51).

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
    """Computes TD targets and the critic loss."""

    def targets(self, batch: Transitions, act: Tensor, cost: Tensor) -> Tensor:
        """Return the targets for the next action ``act`` (B, H, A) at a cost (B,)."""
        ...

    def loss(self, batch: Transitions, act: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss (M, B) and the mean (B,) of the targets."""
        ...


class ScalarBackup:
    """Targets are values (B,).

    Args:
        critic: The trained critic.
        target: Its target network.
        rule: Reduces the ensemble to one value.
        generator: Random source of the rule.
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
        """See ``Backup.targets``."""
        value = self.rule(self.target(batch.next_obs, act), self.generator)
        return td_target(batch.rew, batch.discount, batch.terminated, value - cost)

    def loss(self, batch: Transitions, act: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Backup.loss``."""
        wanted = self.targets(batch, act, cost)
        return self.critic.loss(batch.obs, batch.act, wanted), wanted


class CategoricalBackup:
    """Targets are distributions of the return: probabilities (B, n) of histogram bins.

    The next distribution is shifted and scaled as its value would be, then projected onto the bins
    (C51: Bellemare et al. 2017, arXiv 1707.06887, algorithm 1). The rule selects the ensemble
    member with the lowest mean, or the mixture of all members. These correspond to min and mean of
    values.

    Args:
        critic: The trained critic; its heads are histograms.
        target: Its target network.
        rule: Weights the members' distributions.
        generator: Random source of the rule.

    Raises:
        ValueError: The rule is not a mixture of members.
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
        rule.cfg.check_critic(critic.members, learns_laws=True)

    @torch.no_grad()
    def targets(self, batch: Transitions, act: Tensor, cost: Tensor) -> Tensor:
        """See ``Backup.targets``."""
        centres, laws = self.head.centres, self.target.distributions(batch.next_obs, act)
        shares = self.rule.member_weights(laws @ centres, self.generator)
        law = (shares.unsqueeze(-1) * laws).sum(dim=0)
        rew, discount, terminated = (
            part.unsqueeze(-1) for part in (batch.rew, batch.discount, batch.terminated)
        )
        values = td_target(rew, discount, terminated, centres - cost.unsqueeze(-1))
        return self.head.project(values, law)

    def loss(self, batch: Transitions, act: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Backup.loss``."""
        law = self.targets(batch, act, cost)
        return self.critic.distribution_loss(batch.obs, batch.act, law), law @ self.head.centres


def make_backup(
    critic: QCritic, target: QCritic, rule: EnsembleAggregation, generator: torch.Generator
) -> Backup:
    """Return a categorical backup for a distributional critic, else a scalar one.

    Raises:
        ValueError: See ``CategoricalBackup``.
    """
    learns = CategoricalBackup if critic.distributional else ScalarBackup
    return learns(critic, target, rule, generator)
