"""Estimator ``rollouts``: what a policy that acts in a learnt world comes to there.

It begins where the data do. Nothing is bootstrapped from states of the data, as fitted Q evaluation
does: a policy that leaves them is followed to where the model thinks it goes. Rewards and ends are
taken as the model expects them, so that nothing is drawn but the policy's own noise. Each member of
the ensemble is a world of its own, and its value that of one resample of the data (Hao et al. 2021,
arXiv 2102.03607; model rollouts as RL-100's gate has them: arXiv 2510.14830).

Shapes: M members, E episodes, D numbers of an observation with its history, H horizon, A act_dim.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from robo_rl.algo.policy_samples import EvaluablePolicy, act_normalized
from robo_rl.core.errors import DataError
from robo_rl.core.seeding import make_generator
from robo_rl.ope.estimator import OpeCase
from robo_rl.ope.fqe import ValueEstimate
from robo_rl.ope.resample import Resample
from robo_rl.world.dynamics import DynamicsEnsemble, DynamicsPrediction, flatten_obs


class ModelStep(NamedTuple):
    """A policy's decisions at one time, in every world from every start.

    Args:
        elapsed: Env steps before.
        seen: (M, E, D).
        act: (M, E, H, A), in network units.
        alive: (M, E), the probability that the task goes on until there.
        prediction: What the worlds expect of them.
    """

    elapsed: int
    seen: Tensor
    act: Tensor
    alive: Tensor
    prediction: DynamicsPrediction


class ModelRolloutEstimator:
    """Estimates by the world of a case; the settings of that are the judge's."""

    needs_dynamics: ClassVar = True

    def estimate(self, case: OpeCase) -> ValueEstimate:
        """See ``rollout_estimate``."""
        return rollout_estimate(
            case.dynamics,
            case.policy,
            flatten_obs(case.rows)[case.resample.starts],
            case.resample,
            limit=num_recorded_steps(case),
            gamma=1.0,
            generator=make_generator("rollouts", case.seed),
        )


def num_recorded_steps(case: OpeCase) -> int:
    """Of an episode: what the last step of a cut one led to is not recorded."""
    return case.limit - 1


@torch.no_grad()
def rollout_estimate(
    model: DynamicsEnsemble,
    policy: EvaluablePolicy,
    starts: Tensor,
    resample: Resample,
    *,
    limit: int,
    gamma: float,
    generator: torch.Generator,
) -> ValueEstimate:
    """Each member's mean over the starts of its own episodes.

    Args:
        model: Its chunks are in the units of the policy's normaliser.
        policy: As it is evaluated.
        starts: (E, D), the first observations of the episodes.
        resample: With as many members as the model.
        limit: Env steps that count.
        gamma: Discount per env step.
        generator: The policy's noise.

    Raises:
        DataError: A value is not finite.
    """
    value, steps = torch.zeros(model.members, len(starts)), model.exec_horizon
    for chunk, made in enumerate(rollout_model(model, policy, starts, limit, generator)):
        share = min(1.0, limit / steps - chunk)  # the last chunk may reach behind the limit
        value = value + share * gamma**made.elapsed * made.alive * made.prediction.rew
    members = resample.mean(value)
    if not bool(members.isfinite().all()):
        raise DataError(
            "the policy's values in the learnt world are not finite",
            hint="lower dynamics.lr, look for absurd rewards, or leave out estimator 'rollouts'",
        )
    return ValueEstimate(members)


def rollout_model(
    model: DynamicsEnsemble,
    policy: EvaluablePolicy,
    starts: Tensor,
    limit: int,
    generator: torch.Generator,
) -> Iterator[ModelStep]:
    """What a policy decides in the worlds, time after time until the limit; see above."""
    seen = starts.expand(model.members, *starts.shape)
    alive = torch.ones(seen.shape[:2])
    for elapsed in range(0, limit, model.exec_horizon):
        act = _acted(model, policy, seen, generator)
        ahead = model(seen, act)
        yield ModelStep(elapsed, seen, act, alive, ahead)
        alive = alive * (1.0 - ahead.termination_logit.sigmoid())
        seen = model.next_obs(seen, ahead)


def _acted(
    model: DynamicsEnsemble, policy: EvaluablePolicy, seen: Tensor, generator: torch.Generator
) -> Tensor:
    return act_normalized(policy, model.to_obs_dict(seen.flatten(0, 1)), generator).unflatten(
        0, seen.shape[:2]
    )
