"""Off-policy evaluation of policies on a dataset, as stages ask for it: resumable, on one footing.

Shapes: M members, E episodes.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.algo.dynamics_fit import DynamicsFit
from robo_rl.config import ConfigModel
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import Replay
from robo_rl.ope.clock import came_to, timed
from robo_rl.ope.fqe import Estimate, Fqe
from robo_rl.ope.resample import Resample
from robo_rl.ope.rollouts import rollout_estimate
from robo_rl.ope.support import strangeness
from robo_rl.ope.verdict import Answer, Verdict, agreed, bootstrapped, judge
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.seeding import initialising, make_generator
from robo_rl.train.demonstrations import decisions_of
from robo_rl.train.evaluate import RETURN
from robo_rl.train.steps import take_steps
from robo_rl.world.dynamics import Dynamics, flat

Estimates = dict[str, Estimate]
"""Estimator → what it says of a policy."""

_WHOLE = 1.0
"""The judge's discount: what is asked is whether more episodes succeed, not how soon."""


class JudgeConfig(ConfigModel):
    """Who judges.

    Args:
        estimators: ``fqe``, fitted Q evaluation; ``rollouts``, in a learnt world, of observations
            without pictures. Only what all of them say is an answer.
        fqe: Of the first; unless it says otherwise (``critic.head.bounds``) no value is beyond
            what the data came to from any of their rows.
        dynamics: The world of the second.
        strange: How much further a policy's chunks may be from the nearest that were tried than
            those that were tried are from each other; beyond it no policy is said to be better.
        checkpoint_every: Steps between checkpoints.
    """

    estimators: tuple[Literal["fqe", "rollouts"], ...] = Field(default=("fqe",), min_length=1)
    fqe: Fqe.Config = Fqe.Config()
    dynamics: Dynamics.Config = Dynamics.Config()
    strange: float = Field(default=1.35, ge=1.0)
    checkpoint_every: int = Field(default=1000, ge=1)

    @model_validator(mode="after")
    def _all_that_is_set_is_used(self) -> Self:
        if "rollouts" not in self.estimators and self.dynamics != Dynamics.Config():
            raise ValueError("dynamics: of no use; put 'rollouts' among the estimators")
        return self


class Judgement(NamedTuple):
    """What the estimators say of one policy beside another.

    Args:
        verdicts: Estimator → its verdict.
        strangeness: Of the new policy (``ope.support``).
        strange: Beyond it the data do not say enough of a policy to call it better.
    """

    verdicts: dict[str, Verdict]
    strangeness: float
    strange: float

    @property
    def answer(self) -> Answer:
        """What all of them say, unless they cannot know."""
        said = agreed([each.answer for each in self.verdicts.values()])
        unknown = said is Answer.BETTER and self.strangeness > self.strange
        return Answer.CANNOT_TELL if unknown else said

    def __str__(self) -> str:
        said = [f"{name} {verdict}" for name, verdict in self.verdicts.items()]
        if self.strangeness > self.strange:
            far = f"{self.strangeness:.2f} times as far from what was tried as that is from itself"
            said.append(f"the new policy's actions are {far}, {self.strange:g} at most are judged")
        elif len(said) == 1:
            return str(next(iter(self.verdicts.values())))
        return f"{self.answer.value} ({'; '.join(said)})"


class Judge:
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
        cfg: JudgeConfig,
        data: WindowDataset,
        like: DenoisingPolicy,
        *,
        folder: Path,
        seed: int,
    ) -> None:
        self.cfg, self.folder, self.seed = cfg, folder, seed
        rew, _, last, _ = data.outcomes()
        members, generator = cfg.fqe.critic.members, make_generator("resample", seed)
        self.resample = Resample(last, members, generator)
        elapsed = torch.arange(len(last)) - self.resample.starts[self.resample.episode]
        self.good = _good(rew, self.resample.episode)
        self.fqe = _within(cfg.fqe, came_to(rew, last, _WHOLE))
        self.limit, self.executed = int(elapsed.max()) + 1, like.exec_horizon
        self.rows = decisions_of(data, like, _WHOLE)
        if "rollouts" in cfg.estimators:
            flat(self.rows)  # raises where it predicts nothing, before anything is learnt
        self.replay = Replay(Replay.Config(demo_share=1.0))
        self.replay.add_demonstrations(timed(self.rows, elapsed, self.limit))

    @property
    def episodes(self) -> int:
        """E, on which it judges."""
        return len(self.resample.starts)

    def estimates(self, name: str, policy: DenoisingPolicy) -> Estimates:
        """What a policy is worth; taken up where it was left.

        Raises:
            DataError: Values are not finite, or an observation is a picture, for ``rollouts``.
            PluginError: Gradients were not, for long.
        """
        ask = {"fqe": self._fitted, "rollouts": self._rolled_out}
        return {each: ask[each](name, policy) for each in self.cfg.estimators}

    def strangeness(self, policy: DenoisingPolicy) -> float:
        """How far its chunks are from any that were tried; see ``ope.support``.

        Raises:
            DataError: The episodes are too few or too short to tell.
        """
        generator = make_generator("strangeness", self.seed)
        return strangeness(policy, self.replay, self.resample.episode, self.good, generator)

    def compared(
        self, new: Estimates, old: Estimates, strangeness: float, margin: float
    ) -> Judgement:
        """Two policies, estimator by estimator, the new one of some strangeness."""
        pairs = {name: (new[name].members, old[name].members) for name in new}
        verdicts = {name: judge(*pair, margin) for name, pair in pairs.items()}
        return Judgement(verdicts, strangeness, self.cfg.strange)

    def numbers(self, estimates: Estimates, label: str) -> dict[str, Any]:
        """As reports have them, the first as ``label``, others by their names as well.

        Intervals are of drawing the episodes anew, and of that alone.
        """
        found: dict[str, Any] = {}
        for place, (name, estimate) in enumerate(estimates.items()):
            low, high = bootstrapped(estimate.members)
            value, unit = float(estimate.members.mean()), RETURN
            number = {"value": value, "low": low, "high": high, "n": self.episodes, "unit": unit}
            found[f"{name}_{label}" if place else label] = number
        return found

    def _fitted(self, name: str, policy: DenoisingPolicy) -> Estimate:
        generator, cfg = make_generator("fqe", self.seed), self.fqe
        with initialising("fqe", self.seed):
            fqe = Fqe(cfg, policy, self.replay, self.resample, generator)
        folder, every = self.folder / f"judge_{name}", self.cfg.checkpoint_every
        label = f"judge {name}"
        take_steps(folder, label, cfg.steps, fqe, generator, fqe.step, checkpoint_every=every)
        return fqe.estimate()

    def _rolled_out(self, name: str, policy: DenoisingPolicy) -> Estimate:
        del name
        return rollout_estimate(
            self._world,
            policy,
            flat(self.rows)[self.resample.starts],
            self.resample,
            limit=self.limit - 1,  # as fqe: what the last step of a cut episode led to is not known
            gamma=_WHOLE,
            generator=make_generator("rollouts", self.seed),
        )

    @cached_property
    def _world(self) -> Dynamics:
        generator, cfg = make_generator("dynamics", self.seed), self.cfg.dynamics
        with initialising("dynamics", self.seed):
            model = Dynamics(cfg, self.rows, self.executed, len(self.resample.counts))
        counts = self.resample.counts[:, self.resample.episode]
        fit = DynamicsFit(model, self.rows, counts, generator)
        folder, every = self.folder / "dynamics", self.cfg.checkpoint_every
        take_steps(folder, "dynamics", cfg.steps, fit, generator, fit.step, checkpoint_every=every)
        return fit.finish()


def _good(rew: Tensor, episode: Tensor) -> Tensor:
    """(N,) bool, whether a row's episode came to more than their mean; all do if all are alike."""
    number = int(episode.max()) + 1
    came_to = torch.zeros(number).index_add_(0, episode, rew.float())
    good = came_to > came_to.mean()
    return (good if bool(good.any()) else ~good)[episode]


def _within(cfg: Fqe.Config, returns: Tensor) -> Fqe.Config:
    """Held to the range of returns (N,), unless it is held to another one."""
    bounds, head = (float(returns.min()), float(returns.max())), cfg.critic.head
    if head.bounds is not None or bounds[0] == bounds[1]:
        return cfg
    critic = cfg.critic.model_copy(update={"head": head.model_copy(update={"bounds": bounds})})
    return cfg.model_copy(update={"critic": critic})
