"""Off-policy evaluation of policies on a dataset, resumable, with common resamples.

Shapes: M members, N rows, E episodes.
"""

from __future__ import annotations

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

from robo_rl.config.component import Component, component, default
from robo_rl.core.seeding import make_generator
from robo_rl.critic.inputs import unread_words
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
"""Estimator → its estimate of a policy's value."""


class OpeConfig(OpeDataConfig):
    """Estimators and limits of off-policy evaluation.

    Args:
        estimators: ``fqe``, fitted Q evaluation; ``rollouts`` in a learnt dynamics model, for
            observations without images; ``dr``, doubly robust, which corrects the first by the
            second. The verdict must be unanimous, otherwise it is ``cannot tell``.
        max_ood_distance: Largest distance of the policy's chunks from the nearest chunks in the
            data, relative to the distances within the data. Beyond it no policy is called better.
        model_error: Fraction of the range of possible returns by which value intervals are widened,
            for every estimator. It covers the error of ``fqe`` beyond the bootstrap in nine
            policies of ten (``benchmarks/gate_calibration.py``).
    """

    estimators: tuple[Annotated[Component[Estimator], component("estimators")], ...] = (
        default("fqe"),
    )
    max_ood_distance: float = Field(default=1.35, ge=1.0)
    model_error: float = Field(default=0.4, ge=0.0, le=1.0)

    @field_serializer("estimators", mode="wrap")
    def _bare(self, value: Any, handler: SerializerFunctionWrapHandler) -> tuple[Any, ...]:
        """Serialize estimators without settings as their names."""
        return tuple(each["name"] if len(each) == 1 else each for each in handler(value))

    @field_validator("estimators")
    @classmethod
    def _each_judges_once(cls, estimators: tuple[Component, ...]) -> tuple[Component, ...]:
        names = [each.name for each in estimators]
        if not names:
            raise ValueError("name at least one estimator")
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
        """Whether an estimator needs the dynamics model."""
        return any(each.cls.needs_dynamics for each in self.estimators)

    def check_policy(self, policy: DenoisingPolicy) -> None:
        """Check that estimates may depend on the instruction that a policy reads.

        Raises:
            SpecError: The policy reads a text, and ``fqe.critic.sees`` names no vectors.
        """
        doubt = unread_words(policy.obs_spec, self.fqe.critic.sees, "fqe.critic.sees")
        if doubt is not None:
            raise doubt


class OpeResult(NamedTuple):
    """Comparison of a policy with another by all estimators.

    Args:
        comparisons: Estimator → its verdict.
        ood_distance: OOD distance of the new policy (``ope.support``).
        max_ood_distance: Distance beyond which the data do not support the answer "better".
    """

    comparisons: dict[str, PolicyComparison]
    ood_distance: float
    max_ood_distance: float

    @property
    def answer(self) -> OpeAnswer:
        """The unanimous verdict; "cannot tell" without one, or beyond ``max_ood_distance``."""
        said = unanimous([each.answer for each in self.comparisons.values()])
        unknown = said is OpeAnswer.BETTER and self.ood_distance > self.max_ood_distance
        return OpeAnswer.CANNOT_TELL if unknown else said

    def episodes_needed(self, episodes: int) -> int | None:
        """Return the episodes that would resolve a "cannot tell" at the same spread.

        The result is None if the verdict is decided, or if more such episodes would not help. They
        do not help if the new policy is out of distribution or the estimators lean to different
        verdicts.
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
        """Return the mean difference to the other policy, and the difference per estimator."""
        each = {name: verdict.difference for name, verdict in self.comparisons.items()}
        named = {f"{name}_difference": x for name, x in each.items()} if len(each) > 1 else {}
        return {"difference": fmean(each.values()), **named}

    def __str__(self) -> str:
        said = [f"{name} {verdict}" for name, verdict in self.comparisons.items()]
        if self.ood_distance > self.max_ood_distance:
            said.append(
                f"out-of-distribution distance {self.ood_distance:.2f}"
                f" exceeds max_ood_distance {self.max_ood_distance:g}"
            )
        elif len(said) == 1:
            return str(next(iter(self.comparisons.values())))
        return f"{self.answer.value} ({'; '.join(said)})"


class OpeEvaluator:
    """Evaluates policies on the same resamples and batches, from the same initial weights.

    Args:
        cfg: Estimators and limits.
        data: Episodes; the longest one defines the maximum episode length.
        like: Policy with the chunks and normaliser for the data; evaluated policies must match it.
        folder: Folder of the intermediate results.
        seed: Seed of resamples, batches and weights.

    Raises:
        DataError: An observation is an image, which an estimator cannot use.
        SpecError: See ``OpeConfig.check_policy``.
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
        cfg.check_policy(like)
        self.cfg, self.seed = cfg, seed
        self.data = OpeData(cfg, data, like, folder=folder, seed=seed)
        self.is_good = _good(self.data.rew, self.data.resample.episode)
        if cfg.needs_dynamics:
            flatten_obs(self.data.rows)  # raises for images, before anything is trained

    @property
    def episodes(self) -> int:
        """E, the number of episodes."""
        return len(self.data.resample.starts)

    def estimate(self, name: str, policy: DenoisingPolicy) -> Estimates:
        """Estimate a policy's value; resumes from saved results.

        Raises:
            DataError: Values are not finite.
            PluginError: Gradients were not finite for too many steps.
        """
        case = PolicyOpeCase(self.data, name, policy)
        estimators: dict[str, Estimator] = {each.name: each.build() for each in self.cfg.estimators}
        return {each: estimator.estimate(case) for each, estimator in estimators.items()}

    def ood_distance(self, policy: DenoisingPolicy) -> float:
        """Return the distance of the policy's chunks from those in the data; see ``ope.support``.

        Raises:
            DataError: The episodes are too few or too short.
        """
        generator = make_generator("strangeness", self.seed)
        replay, episode = self.data.replay, self.data.resample.episode
        return ood_distance(policy, replay, episode, self.is_good, generator)

    def compare(
        self,
        new: Estimates,
        old: Estimates,
        ood_distance: float,
        margin: float,
        difference_error: float,
    ) -> OpeResult:
        """Compare two policies by each estimator.

        Args:
            new: Estimates of the new policy.
            old: Estimates of the old one.
            ood_distance: That of the new policy.
            margin: Difference that counts as better.
            difference_error: Fraction of the range of returns by which intervals of the difference
                are widened.
        """
        pairs = {name: (new[name].members, old[name].members) for name in new}
        error = difference_error * self.data.span
        verdicts = {name: compare_estimates(*pair, margin, error) for name, pair in pairs.items()}
        return OpeResult(verdicts, ood_distance, self.cfg.max_ood_distance)

    def numbers(self, estimates: Estimates, label: str) -> dict[str, Any]:
        """Return the estimates in the format of reports: ``label``, and each of several estimators.

        ``label`` is the mean of the estimators, from their lowest to their highest bound. All
        values are clipped to the bounds of the data. Intervals come from resampling the episodes,
        widened by ``model_error``. ``…_effective`` is the effective fraction of the decisions that
        a weighting estimator rests on.
        """
        bounds, off = self.data.bounds, self.cfg.model_error * self.data.span
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
    """Return (N,) bool, whether a row's episode return is above the mean; all True if equal."""
    number = int(episode.max()) + 1
    returns_to_go = torch.zeros(number).index_add_(0, episode, rew.float())
    good = returns_to_go > returns_to_go.mean()
    return (good if bool(good.any()) else ~good)[episode]
