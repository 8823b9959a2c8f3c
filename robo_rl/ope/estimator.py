"""What says what a policy is worth: an estimator, and the case that it is asked about.

An estimator is found by its name among the entry points ``robo_rl.estimators``, and is built as
``Estimator(cfg)``, without a ``Config`` as ``Estimator()``. What several of them need, values that
are fitted to the policy and a learnt world, is the case's, and made when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from robo_rl.algo.policy_samples import EvaluablePolicy
from robo_rl.core.trainable import Trainable
from robo_rl.data.replay import Replay
from robo_rl.ope.fqe import Fqe, ValueEstimate
from robo_rl.ope.resample import Resample
from robo_rl.world.dynamics import DynamicsEnsemble


class OpeCase(Protocol):
    """One policy before a judge. Rewards are counted in full: γ is 1.

    Args:
        replay: The data, every row of them, which know the time (``ope.clock.timed``).
        resample: Of their episodes.
        limit: Env steps of an episode.
        seed: Of all that is drawn.
    """

    replay: Replay
    resample: Resample
    limit: int
    seed: int

    @property
    def policy(self) -> EvaluablePolicy:
        """As it is evaluated."""
        ...

    @property
    def rows(self) -> Mapping[str, Tensor]:
        """Those of ``replay`` as they were logged, without the time."""
        ...

    @property
    def values(self) -> Fqe:
        """Action values of the policy, fitted."""
        ...

    @property
    def dynamics(self) -> DynamicsEnsemble:
        """What follows a chunk, learnt; the same for all policies."""
        ...

    def fit(self, what: str, learner: Trainable, steps: int, generator: torch.Generator) -> None:
        """Take the steps that are left; ``generator`` is all that they draw from."""
        ...


class Estimator(Protocol):
    """Says what a policy is worth."""

    needs_dynamics: ClassVar[bool]
    """Whether it asks the learnt world, which sees no pictures."""

    def estimate(self, case: OpeCase) -> ValueEstimate:
        """A value a resample of the data.

        Raises:
            DataError: Values are not finite.
            PluginError: Gradients were not, for long.
        """
        ...
