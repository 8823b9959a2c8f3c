"""Off-policy evaluation of policies on a dataset, as stages ask for it: resumable, on one footing.

Shapes: M members, N rows, E episodes.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, NamedTuple, Self

import torch
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_serializer,
    field_validator,
    model_validator,
)
from torch import Tensor

from robo_rl.config.registry import Component, component, default
from robo_rl.core.seeding import make_generator
from robo_rl.data.dataset import WindowDataset
from robo_rl.ope.conformal import widen
from robo_rl.ope.estimator import Estimator
from robo_rl.ope.fqe import ValueEstimate
from robo_rl.ope.policy_comparison import (
    OpeAnswer,
    PolicyComparison,
    bootstrap_interval,
    clip_interval,
    compare_estimates,
    hull,
    unanimous,
)
from robo_rl.ope.support import ood_distance
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.intervals import Interval
from robo_rl.train.evaluation.evaluate import RETURN
from robo_rl.train.ope.ope_data import OpeData, OpeDataConfig, PolicyOpeCase
from robo_rl.world.dynamics import DynamicsEnsemble, flatten_obs

Estimates = dict[str, ValueEstimate]
"""Estimator → what it says of a policy."""


class OpeConfig(OpeDataConfig):
    """Who judges, and by what.

    Args:
        estimators: ``fqe``, fitted Q evaluation; ``rollouts``, in a learnt world, of observations
            without pictures; ``dr``, the first corrected by where the second goes. Only what all
            of them say is an answer.
        max_ood_distance: How much further a policy's chunks may be from the nearest that were tried than
            those that were tried are from each other; beyond it no policy is said to be better.
        model_error: By what share of the range of possible returns the intervals of values are
            widened, whoever judges: what ``fqe`` gets wrong beyond the bootstrap in nine policies
            of ten, by ``benchmarks/gate_calibration.py``. Answers, of differences, are not widened.
    """

    estimators: tuple[Annotated[Component[Estimator], component("estimators")], ...] = (
        default("fqe"),
    )
    max_ood_distance: float = Field(default=1.35, ge=1.0)
    model_error: float = Field(default=0.4, ge=0.0, le=1.0)

    @field_serializer("estimators", mode="wrap")
    def _bare(self, value: Any, handler: SerializerFunctionWrapHandler) -> tuple[Any, ...]:
        """Those without settings of their own by their names."""
        return tuple(each["name"] if len(each) == 1 else each for each in handler(value))

    @field_validator("estimators")
    @classmethod
    def _each_judges_once(cls, estimators: tuple[Component, ...]) -> tuple[Component, ...]:
        names = [each.name for each in estimators]
        if not names:
            raise ValueError("expected at least one, found none; nobody would judge")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"expected each once, found {', '.join(twice)} twice")
        return estimators

    @model_validator(mode="after")
    def _all_that_is_set_is_used(self) -> Self:
        if not self.needs_dynamics and self.dynamics != DynamicsEnsemble.Config():
            raise ValueError("dynamics: of no use; put 'dr' or 'rollouts' among the estimators")
        return self

    @property
    def needs_dynamics(self) -> bool:
        """Whether anyone asks the learnt world."""
        return any(each.cls.needs_dynamics for each in self.estimators)


class OpeResult(NamedTuple):
    """What the estimators say of one policy beside another.

    Args:
        comparisons: Estimator → its verdict.
        ood_distance: Of the new policy (``ope.support``).
        max_ood_distance: Beyond it the data do not say enough of a policy to call it better.
    """

    comparisons: dict[str, PolicyComparison]
    ood_distance: float
    max_ood_distance: float

    @property
    def answer(self) -> OpeAnswer:
        """What all of them say, unless they cannot know."""
        said = unanimous([each.answer for each in self.comparisons.values()])
        unknown = said is OpeAnswer.BETTER and self.ood_distance > self.max_ood_distance
        return OpeAnswer.CANNOT_TELL if unknown else said

    def episodes_needed(self, episodes: int) -> int | None:
        """How many episodes would tell at the same spread, where these cannot.

        None where they can, or where more of the like would not: the new policy does what was not
        tried, or its estimators lean to different answers.
        """
        verdicts = list(self.comparisons.values())
        leaning = {each.leaning for each in verdicts}
        if (
            self.answer is not OpeAnswer.CANNOT_TELL
            or self.ood_distance > self.max_ood_distance
            or len(leaning) > 1
        ):
            return None
        found = [
            each.episodes_needed(episodes)
            for each in verdicts
            if each.answer is OpeAnswer.CANNOT_TELL
        ]
        return None if None in found else max((n for n in found if n is not None), default=None)

    def numbers(self) -> dict[str, float]:
        """By how much it is above the other: all together, and each where they are several."""
        each = {name: verdict.difference for name, verdict in self.comparisons.items()}
        named = {f"{name}_difference": x for name, x in each.items()} if len(each) > 1 else {}
        return {"difference": fmean(each.values()), **named}

    def __str__(self) -> str:
        said = [f"{name} {verdict}" for name, verdict in self.comparisons.items()]
        if self.ood_distance > self.max_ood_distance:
            far = f"{self.ood_distance:.2f} times as far from what was tried as that is from itself"
            said.append(
                f"the new policy's actions are {far}, {self.max_ood_distance:g} at most are judged"
            )
        elif len(said) == 1:
            return str(next(iter(self.comparisons.values())))
        return f"{self.answer.value} ({'; '.join(said)})"


class OpeEvaluator:
    """Judges policies on the same resamples and batches, from the same initial weights.

    Args:
        cfg: Who does.
        data: Its episodes; the longest is as long as an episode may be.
        like: Whose chunks and normaliser the data are cut by; those judged are like it.
        folder: Where what is done is kept.
        seed: Of resamples, batches and weights.

    Raises:
        DataError: An observation is a picture, and an estimator cannot see it.
    """

    def __init__(
        self,
        cfg: OpeConfig,
        data: WindowDataset,
        like: DenoisingPolicy,
        *,
        folder: Path,
        seed: int,
    ) -> None:
        self.cfg, self.seed = cfg, seed
        self.data = OpeData(cfg, data, like, folder=folder, seed=seed)
        self.is_good = _good(self.data.rew, self.data.resample.episode)
        if cfg.needs_dynamics:
            flatten_obs(
                self.data.rows
            )  # raises where it predicts nothing, before anything is learnt

    @property
    def episodes(self) -> int:
        """E, on which it judges."""
        return len(self.data.resample.starts)

    def estimate(self, name: str, policy: DenoisingPolicy) -> Estimates:
        """What a policy is worth; taken up where it was left.

        Raises:
            DataError: Values are not finite.
            PluginError: Gradients were not, for long.
        """
        case = PolicyOpeCase(self.data, name, policy)
        estimators: dict[str, Estimator] = {each.name: each.build() for each in self.cfg.estimators}
        return {each: estimator.estimate(case) for each, estimator in estimators.items()}

    def ood_distance(self, policy: DenoisingPolicy) -> float:
        """How far its chunks are from any that were tried; see ``ope.support``.

        Raises:
            DataError: The episodes are too few or too short to tell.
        """
        generator = make_generator("strangeness", self.seed)
        replay, episode = self.data.replay, self.data.resample.episode
        return ood_distance(policy, replay, episode, self.is_good, generator)

    def compare(
        self, new: Estimates, old: Estimates, ood_distance: float, margin: float
    ) -> OpeResult:
        """Two policies, estimator by estimator, the new one of some strangeness."""
        pairs = {name: (new[name].members, old[name].members) for name in new}
        verdicts = {name: compare_estimates(*pair, margin) for name, pair in pairs.items()}
        return OpeResult(verdicts, ood_distance, self.cfg.max_ood_distance)

    def numbers(self, estimates: Estimates, label: str) -> dict[str, Any]:
        """As reports have them: as ``label`` all together, each by its name where they are several.

        Together they are the mean of what they say, from the lowest to the highest that any of them
        does. None is beyond the evidence's bounds. Intervals are of drawing the episodes anew,
        widened by ``model_error``. ``…_effective`` is the share of the decisions that one rests on
        that weighs them.
        """
        bounds = self.data.bounds
        wide = bounds.high - bounds.low
        off = self.cfg.model_error * wide if math.isfinite(wide) else 0.0
        intervals, means = {}, {}
        for name, estimate in estimates.items():
            intervals[name] = clip_interval(
                widen(bootstrap_interval(estimate.members), off), bounds
            )
            means[name] = min(max(float(estimate.members.mean()), bounds.low), bounds.high)
        together = hull(list(intervals.values()))
        found: dict[str, Any] = {label: self._number(fmean(means.values()), together)}
        for name, estimate in estimates.items():
            if len(estimates) > 1:
                found[f"{name}_{label}"] = self._number(means[name], intervals[name])
            if estimate.effective_fraction is not None:
                found[f"{name}_{label}_effective"] = estimate.effective_fraction
        return found

    def _number(self, value: float, interval: Interval) -> dict[str, Any]:
        return {"value": value, **interval._asdict(), "n": self.episodes, "unit": RETURN}


def _good(rew: Tensor, episode: Tensor) -> Tensor:
    """(N,) bool, whether a row's episode came to more than their mean; all do if all are alike."""
    number = int(episode.max()) + 1
    returns_to_go = torch.zeros(number).index_add_(0, episode, rew.float())
    good = returns_to_go > returns_to_go.mean()
    return (good if bool(good.any()) else ~good)[episode]
