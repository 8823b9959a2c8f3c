"""Estimator ``rollouts``: the return of a policy in the learnt world.

Rollouts start at the starts of the data. Unlike fitted Q evaluation, there is no bootstrap from
states of the data: the model predicts where the policy leaves them. Rewards and terminations are
the model's expectations, so the only random draw is the policy's noise. Each ensemble member is one
world, and gives the value for one resample of the data (Hao et al. 2021, arXiv 2102.03607; model
rollouts as in RL-100's gate: arXiv 2510.14830).

Shapes: M members, E episodes, D elements of an observation with its history, H horizon, A act_dim.
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
    """A policy's decisions at one time, in every world and from every start.

    Args:
        elapsed: Env steps since the start.
        seen: (M, E, D), observations.
        act: (M, E, H, A), in network units.
        alive: (M, E), probability that the episode has not terminated.
        prediction: The worlds' predictions for these decisions.
    """

    elapsed: int
    seen: Tensor
    act: Tensor
    alive: Tensor
    prediction: DynamicsPrediction


class ModelRolloutEstimator:
    """Estimates by rollouts in the learnt world; its settings belong to the OPE evaluator."""

    needs_dynamics: ClassVar = True

    def estimate(self, case: OpeCase) -> ValueEstimate:
        """Return ``rollout_estimate`` of the case."""
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
    """Recorded steps of the longest episodes.

    The outcome of a truncated episode's last step is missing, that of a terminated one is not.
    """
    lengths = torch.bincount(case.resample.episode)
    last = lengths.cumsum(0) - 1
    whole = case.rows["decision"][last[lengths == case.limit]]
    return case.limit if bool(whole.any()) else case.limit - 1


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
    """Return each member's mean return over the starts of its own episodes.

    Args:
        model: Dynamics with chunks in units of the policy's normaliser.
        policy: The policy under its evaluation sampler.
        starts: (E, D), the first observations of the episodes.
        resample: Resamples, one per member of the model.
        limit: Env steps that count.
        gamma: Discount per env step.
        generator: Source of the policy's noise.

    Raises:
        DataError: A value is not finite.
    """
    value, steps = torch.zeros(model.members, len(starts)), model.exec_horizon
    for chunk, made in enumerate(rollout_model(model, policy, starts, limit, generator)):
        share = min(1.0, limit / steps - chunk)  # the limit may cut the last chunk
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
    """Yield the policy's decisions in the worlds, chunk by chunk until the limit."""
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
