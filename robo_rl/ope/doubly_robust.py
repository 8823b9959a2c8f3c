"""Estimator ``dr``: fitted Q values with a correction by density ratios (doubly robust).

Shapes: M members, N decisions of the data, P of the policy, S starts, R rows, E executed actions, A
act_dim, F features of a decision. Source: Kallus & Uehara 2020 (arXiv 1908.08526, the estimator
with marginalised ratios), over chunks and self-normalised:

    mean V̂(s0) + n·Σ w·(rew + discount·(1 − terminated)·V̂(o') − Q̂(o, a)) / Σ w

Q̂ are the values of fitted Q evaluation. V̂(o) is their mean over the policy's sampled actions, and
n the number of decisions in one of its episodes. w(o, a, t) is the density ratio of policy and
data, with the policy rolled out in the learnt world (``ope.occupancy``).

The estimate is consistent if the values or the ratios are, because their errors multiply. This
needs values that were not fitted to the rows of their correction (section 4 there, cross-fitting).
The sums are therefore over episodes out of a member's resample.

A policy decides at every E-th step, and the data hold decisions of every step. Decisions of
neighbouring steps are assumed to have the same distribution.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.core.errors import DataError
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.critic.q import td_target
from robo_rl.ope.estimator import OpeCase
from robo_rl.ope.fqe import Fqe, ValueEstimate
from robo_rl.ope.occupancy import OccupancyRatio, WeightedDecisions
from robo_rl.ope.rollouts import ModelStep, num_recorded_steps, rollout_model
from robo_rl.ope.time_aware import ELAPSED
from robo_rl.optim.out_of_bag_selection import out_of_bag_mask
from robo_rl.world.dynamics import flatten_obs

_AT_ONCE = 2048


class LoggedDecisions(NamedTuple):
    """The data's decisions, as inputs of critics and ratios.

    Args:
        inputs: (N, F).
        errors: (M, N), TD errors of Q̂: target minus Q̂.
        counts: (M, N), count of each decision in each member's resample.
        unseen: (M, N), mask of out-of-bag decisions; all ones for a member that has every episode.
    """

    inputs: Tensor
    errors: Tensor
    counts: Tensor
    unseen: Tensor


class DoublyRobust:
    """Doubly robust estimator on top of fitted Q evaluation.

    Args:
        cfg: See Config.
    """

    class Config(OccupancyRatio.Config):
        """Settings of the ratios, which are clipped at their quantile ``clip_quantile``."""

        clip_quantile: float = Field(default=0.99, gt=0.0, le=1.0)
        """Quantile at which ratios are clipped."""

    needs_dynamics: ClassVar = True

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @torch.no_grad()
    def estimate(self, case: OpeCase) -> ValueEstimate:
        """Return the doubly robust estimate, one value per resample.

        Raises:
            DataError: Values are not finite, or an observation is an image.
            PluginError: Gradients were not finite for long.
        """
        generator = make_generator("dr", case.seed)
        ahead = state_values(case.values, torch.arange(case.replay.rows))
        logged = logged_decisions(case, ahead, generator)
        made, number = policy_decisions(case, generator)
        ratios = self._ratios(case, made, logged, generator)
        weights = logged.unseen * ratios
        start = case.resample.mean(ahead[:, case.resample.starts])
        members = dr_estimate(start, number, weights, logged.errors)
        if not bool(members.isfinite().all()):
            hint = "lower fqe.lr, look for absurd rewards, or leave out estimator 'dr'"
            raise DataError("the policy's corrected values are not finite", hint=hint)
        return ValueEstimate(
            members, float(effective_sample_fraction(ratios, logged.unseen).mean())
        )

    def _ratios(
        self,
        case: OpeCase,
        made: WeightedDecisions,
        logged: LoggedDecisions,
        generator: torch.Generator,
    ) -> Tensor:
        """Density ratios (M, N) of the data's decisions."""
        counts = logged.counts
        inputs = logged.inputs.expand(len(counts), *logged.inputs.shape)
        theirs = WeightedDecisions(inputs, counts, (counts == 0.0).float())
        with seeded_initialization("dr", case.seed):
            learner = OccupancyRatio(self.cfg, made, theirs, generator)
            case.fit("dr", learner, self.cfg.steps, generator)
        learner.finish()
        return clip_ratios(learner.ratios(inputs), self.cfg.clip_quantile)


def dr_estimate(start: Tensor, number: Tensor, weights: Tensor, errors: Tensor) -> Tensor:
    """The estimate (M,) of the module's formula.

    Args:
        start: (M,) mean V̂(s0).
        number: (M,) n.
        weights: (M, N) w.
        errors: (M, N), TD errors.
    """
    return start + number * (weights * errors).sum(dim=1) / weights.sum(dim=1)


def clip_ratios(ratios: Tensor, share: float) -> Tensor:
    """Clip ratios (M, N) of each member at their quantile ``share``."""
    place = max(1, math.floor(share * ratios.shape[1]))
    return ratios.minimum(ratios.kthvalue(place, dim=1, keepdim=True).values)


def effective_sample_fraction(ratios: Tensor, counts: Tensor) -> Tensor:
    """Effective sample fraction (Σ w)² / Σ w² over the number of decisions (Kong 1992), (M,).

    Args:
        ratios: (M, N).
        counts: (M, N), count of each decision.
    """
    number, first = counts.sum(dim=1), (counts * ratios).sum(dim=1)
    return first.square() / (counts * ratios.square()).sum(dim=1) / number


def state_values(values: Fqe, rows: Tensor) -> Tensor:
    """V̂ of rows (R,), the mean of Q̂ over the policy's sampled actions: (M, R)."""
    found = [_state_values(values, part) for part in rows.split(_AT_ONCE)]
    return torch.cat(found, dim=1)


def _state_values(values: Fqe, rows: Tensor) -> Tensor:
    obs = values.replay.transitions(rows).obs
    each = [values.target.module(obs, act) for act in values.policy_actions.all(rows)]
    return torch.stack(each).mean(dim=0)


def logged_decisions(case: OpeCase, ahead: Tensor, generator: torch.Generator) -> LoggedDecisions:
    """Return decisions that were executed whole or terminated; ``ahead`` is V̂ (M, R).

    The unexecuted part of a chunk is replaced by the policy's action. It had no effect, and it
    would otherwise reveal the origin of the decision.
    """
    values, rows = case.values, case.replay.decisions
    batch = case.replay.transitions(rows)
    whole = (batch.num_exec == case.policy.exec_horizon) | batch.terminated
    inputs, errors = [], []
    for part in rows[whole].split(_AT_ONCE):
        batch = case.replay.transitions(part)
        answers = values.policy_actions.sample(part, generator)
        steps = torch.arange(answers.shape[1])
        done = (steps < batch.num_exec[:, None])[..., None]
        act = torch.where(done, batch.act[:, : len(steps)], answers)
        follows = ahead[:, batch.next_row]
        wanted = td_target(batch.rew, batch.discount, batch.terminated, follows)
        errors.append(wanted - values.target.module(batch.obs, act))
        inputs.append(_inputs(values, batch.obs, act))
    counts = case.resample.weights(rows[whole])
    return LoggedDecisions(
        torch.cat(inputs), torch.cat(errors, dim=1), counts, out_of_bag_mask(counts)
    )


def policy_decisions(case: OpeCase, generator: torch.Generator) -> tuple[WeightedDecisions, Tensor]:
    """Return the policy's decisions in the learnt world, and their number per episode (M,).

    A decision has the weight of the probability that the episode lasts until then.
    """
    starts = flatten_obs(case.rows)[case.resample.starts]
    made = list(
        rollout_model(case.dynamics, case.policy, starts, num_recorded_steps(case), generator)
    )
    alive = torch.stack([each.alive for each in made], dim=1)
    inputs = torch.cat([_imagined_inputs(case, each) for each in made], dim=1)
    counts = case.resample.counts[:, None]
    weights, unseen = (alive * each for each in (counts, (counts == 0.0).float()))
    decisions = WeightedDecisions(inputs, weights.flatten(1), unseen.flatten(1))
    return decisions, case.resample.mean(alive.sum(dim=1))


def _imagined_inputs(case: OpeCase, made: ModelStep) -> Tensor:
    """Critic inputs (M, S, F) of one model step."""
    obs = case.dynamics.to_obs_dict(made.seen.flatten(0, 1))
    share = torch.full((made.alive.numel(), case.policy.obs_horizon, 1), made.elapsed / case.limit)
    found = _inputs(case.values, {**obs, ELAPSED: share}, made.act.flatten(0, 1))
    return found.unflatten(0, made.alive.shape)


def _inputs(values: Fqe, obs: dict[str, Tensor], act: Tensor) -> Tensor:
    """Critic inputs (B, F)."""
    return values.critic.join_inputs(values.critic.encode(obs), act)
