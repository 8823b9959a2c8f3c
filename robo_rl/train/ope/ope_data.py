"""Data of off-policy evaluation: resampled episodes, a dynamics model, and fitted values.

Shapes: M members, N rows, E episodes.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.core.stateful import Trainable
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import Replay
from robo_rl.ope.fqe import Fqe
from robo_rl.ope.resample import Resample
from robo_rl.ope.time_aware import add_time_feature, returns_to_go
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.intervals import Interval
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.datasets.demonstrations import policy_transitions
from robo_rl.world.dynamics import DynamicsEnsemble
from robo_rl.world.dynamics_trainer import DynamicsTrainer

_WHOLE = 1.0
"""Discount of off-policy evaluation: whether episodes succeed counts, not how soon."""


class OpeDataConfig(ConfigModel):
    """Settings that the estimators share.

    Args:
        fqe: Fitted Q evaluation, and the number of ensemble members. By default
            (``critic.head.bounds``) no value exceeds the range of returns in the data.
        dynamics: Dynamics model.
        checkpoint_every: Steps between checkpoints.
    """

    fqe: Fqe.Config = Fqe.Config()
    dynamics: DynamicsEnsemble.Config = DynamicsEnsemble.Config()
    checkpoint_every: int = Field(default=1000, ge=1)

    without_effect: ClassVar[tuple[str, ...]] = ("checkpoint_every",)


class OpeData:
    """The data, and a dynamics model that is trained on first use.

    ``bounds`` limit a policy's value. They are the range of returns from any row of the data,
    unless ``critic.head.bounds`` sets others. They are infinite if all rows have the same return.
    ``span`` is their width; of infinite bounds, the size of that return.

    Args:
        cfg: See ``OpeDataConfig``.
        data: Episodes; the longest one defines the maximum episode length.
        like: Policy with the chunks and normaliser for the data.
        folder: Folder of the trained models.
        seed: Seed of resamples, batches and weights.
    """

    def __init__(
        self,
        cfg: OpeDataConfig,
        data: WindowDataset,
        like: DenoisingPolicy,
        *,
        folder: Path,
        seed: int,
    ) -> None:
        self.cfg, self.folder, self.seed = cfg, folder, seed
        self.rew, _, last, _ = data.outcomes()
        members, generator = cfg.fqe.critic.members, make_generator("resample", seed)
        self.resample = Resample(last, members, generator)
        elapsed = torch.arange(len(last)) - self.resample.starts[self.resample.episode]
        returns = returns_to_go(self.rew, last, _WHOLE)
        self.bounds = value_bounds(cfg.fqe, returns)
        self.span = value_span(self.bounds, returns)
        self.fqe = _within(cfg.fqe, self.bounds)
        self.limit, self.executed = int(elapsed.max()) + 1, like.exec_horizon
        self.rows = policy_transitions(data, like, _WHOLE)
        self.replay = Replay(Replay.Config(demo_fraction=1.0))
        self.replay.add_demonstrations(add_time_feature(self.rows, elapsed, self.limit))

    def fit(self, what: str, learner: Trainable, steps: int, generator: torch.Generator) -> None:
        """Take the remaining steps, with checkpoints in a folder named after ``what``."""
        folder, every = self.folder / what.replace(" ", "_"), self.cfg.checkpoint_every
        with torch.enable_grad():  # the caller may run without gradients
            take_steps(
                folder, what, steps, learner, generator, learner.step, checkpoint_every=every
            )

    @cached_property
    def dynamics(self) -> DynamicsEnsemble:
        """The dynamics model, which predicts the state after a chunk."""
        generator, cfg = make_generator("dynamics", self.seed), self.cfg.dynamics
        with seeded_initialization("dynamics", self.seed):
            model = DynamicsEnsemble(cfg, self.rows, self.executed, len(self.resample.counts))
        counts = self.resample.counts[:, self.resample.episode]
        fit = DynamicsTrainer(model, self.rows, counts, generator)
        self.fit("dynamics", fit, cfg.steps, generator)
        return fit.finish()


class PolicyOpeCase:
    """A policy under evaluation; its values are fitted on first use.

    Args:
        evidence: Data shared by all policies.
        name: Name of the policy.
        policy: The policy under evaluation.
    """

    def __init__(self, evidence: OpeData, name: str, policy: DenoisingPolicy) -> None:
        self.data, self.name, self.policy = evidence, name, policy
        self.replay, self.rows, self.resample = evidence.replay, evidence.rows, evidence.resample
        self.limit, self.seed = evidence.limit, evidence.seed

    def fit(self, what: str, learner: Trainable, steps: int, generator: torch.Generator) -> None:
        """Take steps as ``OpeData.fit`` does, in a folder of this policy."""
        self.data.fit(f"{what} {self.name}", learner, steps, generator)

    @property
    def dynamics(self) -> DynamicsEnsemble:
        """The dynamics model of the data."""
        return self.data.dynamics

    @property
    def values(self) -> Fqe:
        """Fitted Q evaluation of the policy, see ``ope.fqe``."""
        return self._fitted

    @cached_property
    def _fitted(self) -> Fqe:
        generator, cfg = make_generator("fqe", self.seed), self.data.fqe
        with seeded_initialization("fqe", self.seed):
            fqe = Fqe(cfg, self.policy, self.replay, self.resample, generator)
        self.fit("judge", fqe, cfg.steps, generator)
        return fqe


def value_span(bounds: Interval, returns: Tensor) -> float:
    """Return the width of bounds; of infinite ones, the size of the largest return (N,)."""
    width = bounds.high - bounds.low
    return width if math.isfinite(width) else float(returns.abs().max())


def value_bounds(cfg: Fqe.Config, returns: Tensor) -> Interval:
    """Return the bounds of a policy's value from the returns (N,) of the data; see ``OpeData``."""
    said = cfg.critic.head.bounds or (float(returns.min()), float(returns.max()))
    return Interval(*said) if said[0] < said[1] else Interval(-math.inf, math.inf)


def _within(cfg: Fqe.Config, bounds: Interval) -> Fqe.Config:
    """Return the settings with values clipped to finite bounds."""
    if math.isinf(bounds.low):
        return cfg
    head = cfg.critic.head.model_copy(update={"bounds": tuple(bounds)})
    return cfg.model_copy(update={"critic": cfg.critic.model_copy(update={"head": head})})
