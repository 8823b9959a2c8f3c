"""What a judge judges by: the data, resampled; a learnt world; a policy's fitted values.

Shapes: M members, N rows, E episodes.
"""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.core.trainable import Trainable
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
"""The judge's discount: what is asked is whether more episodes succeed, not how soon."""


class OpeDataConfig(ConfigModel):
    """What estimators share.

    Args:
        fqe: Values of a policy, and how many members anything has; unless it says otherwise
            (``critic.head.bounds``) none is beyond what the data came to from any of their rows.
        dynamics: The learnt world.
        checkpoint_every: Steps between checkpoints.
    """

    fqe: Fqe.Config = Fqe.Config()
    dynamics: DynamicsEnsemble.Config = DynamicsEnsemble.Config()
    checkpoint_every: int = Field(default=1000, ge=1)


class OpeData:
    """The data, and the world that is learnt of them when it is first asked for.

    ``bounds`` are of what a policy may come to: what the data did from any of their rows, unless
    ``critic.head.bounds`` say otherwise; none where the data came to the same from all of them.

    Args:
        cfg: See ``OpeDataConfig``.
        data: Their episodes; the longest is as long as an episode may be.
        like: Whose chunks and normaliser the data are cut by.
        folder: Where what is learnt is kept.
        seed: Of resamples, batches and weights.
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
        self.bounds = value_bounds(cfg.fqe, returns_to_go(self.rew, last, _WHOLE))
        self.fqe = _within(cfg.fqe, self.bounds)
        self.limit, self.executed = int(elapsed.max()) + 1, like.exec_horizon
        self.rows = policy_transitions(data, like, _WHOLE)
        self.replay = Replay(Replay.Config(demo_fraction=1.0))
        self.replay.add_demonstrations(add_time_feature(self.rows, elapsed, self.limit))

    def fit(self, what: str, learner: Trainable, steps: int, generator: torch.Generator) -> None:
        """Take the steps that are left, kept in a folder that is called like ``what``."""
        folder, every = self.folder / what.replace(" ", "_"), self.cfg.checkpoint_every
        with torch.enable_grad():  # who asks first may be about to do without
            take_steps(
                folder, what, steps, learner, generator, learner.step, checkpoint_every=every
            )

    @cached_property
    def dynamics(self) -> DynamicsEnsemble:
        """What follows a chunk."""
        generator, cfg = make_generator("dynamics", self.seed), self.cfg.dynamics
        with seeded_initialization("dynamics", self.seed):
            model = DynamicsEnsemble(cfg, self.rows, self.executed, len(self.resample.counts))
        counts = self.resample.counts[:, self.resample.episode]
        fit = DynamicsTrainer(model, self.rows, counts, generator)
        self.fit("dynamics", fit, cfg.steps, generator)
        return fit.finish()


class PolicyOpeCase:
    """A policy before a judge: a ``Case``, whose values are fitted when they are first asked for.

    Args:
        evidence: Shared by all policies.
        name: Of the policy among them.
        policy: As it is evaluated.
    """

    def __init__(self, evidence: OpeData, name: str, policy: DenoisingPolicy) -> None:
        self.data, self.name, self.policy = evidence, name, policy
        self.replay, self.rows, self.resample = evidence.replay, evidence.rows, evidence.resample
        self.limit, self.seed = evidence.limit, evidence.seed

    def fit(self, what: str, learner: Trainable, steps: int, generator: torch.Generator) -> None:
        """As the evidence does, in a folder of this policy's own."""
        self.data.fit(f"{what} {self.name}", learner, steps, generator)

    @property
    def dynamics(self) -> DynamicsEnsemble:
        """The evidence's."""
        return self.data.dynamics

    @property
    def values(self) -> Fqe:
        """See ``ope.fqe``."""
        return self._fitted

    @cached_property
    def _fitted(self) -> Fqe:
        generator, cfg = make_generator("fqe", self.seed), self.data.fqe
        with seeded_initialization("fqe", self.seed):
            fqe = Fqe(cfg, self.policy, self.replay, self.resample, generator)
        self.fit("judge", fqe, cfg.steps, generator)
        return fqe


def value_bounds(cfg: Fqe.Config, returns: Tensor) -> Interval:
    """Of what a policy may come to, where the data came to these (N,); see ``Evidence``."""
    said = cfg.critic.head.bounds or (float(returns.min()), float(returns.max()))
    return Interval(*said) if said[0] < said[1] else Interval(-math.inf, math.inf)


def _within(cfg: Fqe.Config, bounds: Interval) -> Fqe.Config:
    """Values held to bounds, if there are any."""
    if math.isinf(bounds.low):
        return cfg
    head = cfg.critic.head.model_copy(update={"bounds": tuple(bounds)})
    return cfg.model_copy(update={"critic": cfg.critic.model_copy(update={"head": head})})
