"""The interface of OPE estimators, and the case that they evaluate.

An estimator is registered by name in the entry points ``robo_rl.estimators``. It is built as
``Estimator(cfg)``, or as ``Estimator()`` if it has no ``Config``. The case holds shared models:
fitted Q values of the policy, and a learnt world. They are trained on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from robo_rl.algo.policy_samples import EvaluablePolicy
from robo_rl.core.stateful import Trainable
from robo_rl.data.replay import Replay
from robo_rl.ope.fqe import Fqe, ValueEstimate
from robo_rl.ope.resample import Resample
from robo_rl.world.dynamics import DynamicsEnsemble


class OpeCase(Protocol):
    """One policy under evaluation. Returns are undiscounted: γ is 1.

    Args:
        replay: All rows of the data, with a time feature (``ope.time_aware.add_time_feature``).
        resample: Bootstrap resamples of the episodes.
        limit: Env steps of an episode.
        seed: Seed of all random draws.
    """

    replay: Replay
    resample: Resample
    limit: int
    seed: int

    @property
    def policy(self) -> EvaluablePolicy:
        """The policy under its evaluation sampler."""
        ...

    @property
    def rows(self) -> Mapping[str, Tensor]:
        """The rows of ``replay`` as they were logged, without the time feature."""
        ...

    @property
    def values(self) -> Fqe:
        """Fitted action values of the policy."""
        ...

    @property
    def dynamics(self) -> DynamicsEnsemble:
        """The learnt dynamics; shared by all policies."""
        ...

    def fit(self, what: str, learner: Trainable, steps: int, generator: torch.Generator) -> None:
        """Train ``learner`` for its remaining steps; ``generator`` is its only random source."""
        ...


class Estimator(Protocol):
    """Estimates the value of a policy."""

    needs_dynamics: ClassVar[bool]
    """Whether it uses the learnt world, which does not support images."""

    def estimate(self, case: OpeCase) -> ValueEstimate:
        """Return one value per resample of the data.

        Raises:
            DataError: Values are not finite.
            PluginError: Gradients were not finite for long.
        """
        ...
