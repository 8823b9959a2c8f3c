"""Density ratio of a policy's decisions to the data's decisions.

A classifier separates the policy's decisions from the data's. With equally frequent classes, its
odds are the density ratio p_π/p_D (Sugiyama, Suzuki & Kanamori 2012, *Density Ratio Estimation in
Machine Learning*, chapter 4). Input noise and weight decay limit overconfidence. Each member keeps
the weights with its lowest out-of-bag error.

Shapes: M members, N decisions, B of a batch, F features of a decision.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from robo_rl.config.models import ConfigModel
from robo_rl.core.stateful import Trainable
from robo_rl.nets.ensemble import MlpEnsemble
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.out_of_bag_selection import OutOfBagBest

_LOOKED_AT = 2048
"""Decisions of either class that estimate the out-of-bag error."""
_AT_ONCE = 4096


class WeightedDecisions(NamedTuple):
    """Decisions of one class, with the members' weights.

    Args:
        inputs: (M, N, F), of the size of 1.
        weights: (M, N), training weights; not all 0.
        unseen: (M, N), out-of-bag weights; all 0 for a member that has every episode.
    """

    inputs: Tensor
    weights: Tensor
    unseen: Tensor


class OccupancyRatio(Trainable):
    """Classifier that separates the policy's decisions from the data's.

    Args:
        cfg: See Config.
        made: The policy's decisions.
        logged: The data's decisions.
        generator: Draws batches and noise.
    """

    class Config(ConfigModel):
        """Network, optimiser and length; members are evaluated every ``eval_every`` steps.

        ``noise`` is the std of the noise on inputs.
        """

        hidden: tuple[int, ...] = Field(default=(128, 128), min_length=1)
        """Widths of the hidden layers."""
        steps: int = Field(default=1000, ge=1)
        """Gradient steps."""
        minibatch: int = Field(default=256, ge=1)
        """Rows of a minibatch."""
        lr: float = Field(default=1e-3, gt=0.0)
        """Learning rate."""
        grad_clip: float = Field(default=10.0, gt=0.0)
        """Largest norm of a gradient."""
        weight_decay: float = Field(default=1e-2, ge=0.0)
        """Weight decay of AdamW."""
        noise: float = Field(default=0.1, ge=0.0)
        """Standard deviation of the noise on inputs."""
        eval_every: int = Field(default=50, ge=1)
        """Gradient steps between two evaluations of the members."""

    state_parts = ("net", "optimizer", "best", "done")

    def __init__(
        self,
        cfg: Config,
        made: WeightedDecisions,
        logged: WeightedDecisions,
        generator: torch.Generator,
    ) -> None:
        self.cfg, self.generator, self.done = cfg, generator, 0
        members, _, size = made.inputs.shape
        self.net = MlpEnsemble(members, [size, *cfg.hidden, 1], layer_norm=True)
        self.optimizer = ClippedOptimizer(
            self.net.parameters(), cfg.lr, cfg.grad_clip, cfg.weight_decay
        )
        self.best = OutOfBagBest(self.net, members)
        both = (made, logged)
        self.urns = [_Urn(each.inputs, each.weights) for each in both]
        self.test = [_tests(each).draw(_LOOKED_AT, generator) for each in both]

    def step(self) -> dict[str, float]:
        """Take one gradient step; returns the loss, and the out-of-bag error once it is known.

        Raises:
            PluginError: Gradients were not finite for long.
        """
        drawn = [urn.draw(self.cfg.minibatch, self.generator) for urn in self.urns]
        loss = self._loss([self._noised(each) for each in drawn])
        self.optimizer.step(loss.sum())
        self.done += 1
        if self.done % self.cfg.eval_every == 0 or self.done == self.cfg.steps:
            with torch.no_grad():
                self.best.update(self._loss(self.test))
        return {"loss": float(loss.detach().mean()), **self.best.metrics()}

    def finish(self) -> None:
        """Load each member's best weights by out-of-bag error.

        Raises:
            DataError: A member never had a finite error.
        """
        self.best.restore("whose a decision is")

    @torch.no_grad()
    def ratios(self, inputs: Tensor) -> Tensor:
        """p_π/p_D of decisions (M, N, F): (M, N)."""
        parts = [self._log_odds(part) for part in inputs.split(_AT_ONCE, dim=1)]
        return torch.cat(parts, dim=1).exp()

    def _loss(self, drawn: list[Tensor]) -> Tensor:
        """Cross-entropy of each member: (M,)."""
        made, logged = (self._log_odds(each) for each in drawn)
        return (F.softplus(-made) + F.softplus(logged)).mean(dim=1)

    def _log_odds(self, inputs: Tensor) -> Tensor:
        return self.net(inputs).squeeze(-1)

    def _noised(self, inputs: Tensor) -> Tensor:
        noise = torch.randn(inputs.shape, generator=self.generator)
        return inputs + self.cfg.noise * noise


class _Urn:
    """Weighted sampling of decisions (M, N, F) by their weights (M, N)."""

    def __init__(self, inputs: Tensor, weights: Tensor) -> None:
        self.inputs, sums = inputs, weights.double().cumsum(dim=1)
        self.shares = sums / sums[:, -1:]

    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        """Draw (M, number, F) with replacement, by inverting the weights' distribution."""
        members = len(self.shares)
        at = torch.rand(members, number, generator=generator, dtype=torch.float64)
        picks = torch.searchsorted(self.shares, at, right=True)
        return self.inputs[torch.arange(members)[:, None], picks]


def _tests(decisions: WeightedDecisions) -> _Urn:
    """Return a sampler of out-of-bag decisions.

    For a member with every episode it samples all decisions.
    """
    seen_all = ~(decisions.unseen > 0.0).any(dim=1, keepdim=True)
    return _Urn(decisions.inputs, torch.where(seen_all, decisions.weights, decisions.unseen))
