"""The actor's part of PPO: epochs over the units of a block, and averages of the weights."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.algo.on_policy import ActorUpdate
from robo_rl.algo.ppo.actor_batch import copy_exploration
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig, check_policy_supports
from robo_rl.algo.ppo.ratio_norm import RatioNorm
from robo_rl.algo.ppo.surrogate_loss import Figures
from robo_rl.core.errors import PluginError
from robo_rl.data.rollout import Rollout
from robo_rl.optim.adaptive_lr import AdaptiveLr, AdaptiveLrConfig
from robo_rl.optim.ema import Ema, Ewma
from robo_rl.optim.minibatches import Minibatch, Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.optim.precision import autocast
from robo_rl.optim.step_rollback import StepRollback
from robo_rl.policy.base import DenoisingPolicy

RATIO_TOLERANCE = 1e-3


class ActorConfig(ObjectiveConfig, OptimizerConfig, AdaptiveLrConfig):
    """How fast the actor learns; the rest is in ``ObjectiveConfig``.

    ``target_kl`` is the chain's KL per update in nats: a step that leads above twice of it is taken
    back and ends the update (``StepRollback``), and the learning rate falls or rises by 1.5 to stay near
    it, within ``lr_min`` and ``lr_max``; 0 leaves both alone.
    ``proximal_ema`` is the decay, per optimiser step, of the average of weights that takes the
    acting policy's place in the trust region; ``ema_decay`` that of the average that is evaluated
    and kept in place of the last weights. 0 is off for both.
    """

    weight_decay: float = Field(default=0.0, ge=0.0)
    """Weight decay of AdamW."""
    epochs: int = Field(default=4, ge=1)
    """Passes over a rollout."""
    target_kl: float = Field(default=0.1, ge=0.0)
    """KL of an update that the learning rate is steered to, in nats; 0 is no limit."""
    proximal_ema: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Decay of the average of weights that the trust region is around; 0 is off."""
    ema_decay: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Decay of the average of weights that is evaluated and kept; 0 is off."""

    @model_validator(mode="after")
    def _one_policy_to_stay_near(self) -> ActorConfig:
        if self.proximal_ema and self.ratio_norm is RatioNorm.GUARD:
            raise ValueError("proximal_ema: ratio_norm 'guard' is relative to the acting policy")
        return self

    @model_validator(mode="after")
    def _weighed_by_what_is_held(self) -> ActorConfig:
        if self.proximal_ema and self.ratio_reduction == "mean":
            raise ValueError("proximal_ema: weighs units by the ratio of sums, not of means")
        return self


class PpoActor(ActorUpdate):
    """A policy, its optimiser, and the averages of its weights.

    Args:
        cfg: See ``ActorConfig``.
        policy: Trained in place.
        generator: Draws minibatches, and noise where ratios or anchors need it.

    Raises:
        ConfigError: The policy does not offer what the settings ask for.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("proximal_ema", "average")

    def __init__(
        self, cfg: ActorConfig, policy: DenoisingPolicy, generator: torch.Generator
    ) -> None:
        check_policy_supports(cfg, policy)
        self.cfg, self.policy, self.generator = cfg, policy, generator
        if cfg.regularization.needs_reference and policy.reference_net is None:
            policy.freeze_reference()
        params = (p for p in policy.parameters() if p.requires_grad)
        self.optimizer = ClippedOptimizer(params, cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.rate = AdaptiveLr(self.optimizer, cfg.lr_min, cfg.lr_max)
        self.proximal_ema = Ewma(policy, cfg.proximal_ema) if cfg.proximal_ema else None
        self.average = Ema(policy, cfg.ema_decay) if cfg.ema_decay else None
        self._base: DenoisingPolicy | None = None

    def update(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        """Epochs over all units, as long as the chain's KL stays within twice its target.

        Args:
            rollout: The block.
            adv: (N,) of its valid decisions.

        Raises:
            PluginError: The ratio is not 1 before the first step.
        """
        with autocast(self.cfg.precision, self.policy):
            objective = self._objective(rollout, adv)
        stats, per_unit = list[Figures](), objective.likelihood.units_per_decision
        batches = Minibatches(
            objective.size, self.cfg.minibatch, self.generator, objective.shards(rollout)
        )

        def measure(batch: Minibatch) -> tuple[Tensor, float]:
            with autocast(self.cfg.precision, self.policy):
                found = objective.loss(batch.indices, self._proximal_policy())
            stats.append(found.figures(batch.weight))
            if len(stats) == 1:
                _assert_fresh(stats[0].ratio_error)
            return found.loss, per_unit * stats[-1].kl

        region = StepRollback(self.rate, self.cfg.target_kl, self._parts())
        region.descend(batches.epochs(self.cfg.epochs), measure, self._step)
        return self._metrics(stats, batches.per_epoch, region)

    def eval_policy(self) -> DenoisingPolicy:
        """The averaged policy, where an average is kept."""
        if self.average is None:
            return self.policy
        return copy_exploration(self.average.module, self.policy)

    def _loaded(self) -> None:
        self._base = None

    def _averages(self) -> list[Ema[DenoisingPolicy]]:
        return [ema for ema in (self.proximal_ema, self.average) if ema is not None]

    def _step(self, loss: Tensor, share: float) -> None:
        self.optimizer.step(loss, share)
        for ema in self._averages():
            ema.update(self.policy)

    def _proximal_policy(self) -> DenoisingPolicy | None:
        if self.proximal_ema is None:
            return None
        return copy_exploration(self.proximal_ema.module, self.policy)

    def _reference_policy(self) -> DenoisingPolicy | None:
        if self._base is None and self.cfg.regularization.needs_reference:
            self._base = self.policy.reference_policy()
        return self._base

    def _objective(self, rollout: Rollout, adv: Tensor) -> Objective:
        return Objective(
            self.cfg, self.policy, self._reference_policy(), rollout, adv, self.generator
        )

    def _parts(self) -> list[Tensor]:
        """All that a step changes, but the optimiser's own state."""
        averages = [part for ema in self._averages() for part in ema.mutable_tensors]
        return [*self.optimizer.params, *averages]

    def _metrics(
        self, stats: list[Figures], per_epoch: int, region: StepRollback
    ) -> dict[str, float]:
        """The KL that the update ended with, and means over its minibatches."""
        last = stats[-per_epoch:]
        return {
            "kl": region.distance,
            "clip_fraction": sum(s.clip_fraction for s in stats) / len(stats),
            "actor_steps": float(region.steps),
            "ratio_error": stats[0].ratio_error,
            **{name: sum(s.extras[name] for s in last) / len(last) for name in last[0].extras},
        }


def _assert_fresh(error: float) -> None:
    """On the first minibatch of an update the ratio is 1, or sampling and scoring differ."""
    if not error <= RATIO_TOLERANCE:  # NaN does not pass
        raise PluginError(
            "the likelihood ratio on the first minibatch is not 1",
            expected=f"|ratio − 1| ≤ {RATIO_TOLERANCE}",
            found=f"{error:.2e}",
            hint="sample() and kernel() disagree: dropout, batch norm, another time grid?",
        )
