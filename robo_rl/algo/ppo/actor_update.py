"""The actor update of PPO: epochs over a rollout's units, and weight averages."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.algo.encoded_obs import demand_shared_encoder
from robo_rl.algo.on_policy import ActorUpdate
from robo_rl.algo.ppo.batch.actor_batch import copy_exploration
from robo_rl.algo.ppo.objective import Objective, ObjectiveConfig, check_policy_supports
from robo_rl.algo.ppo.ratio_norm import RatioNorm
from robo_rl.algo.ppo.ratio_units import RatioMode
from robo_rl.algo.ppo.surrogate_loss import SurrogateLoss, SurrogateMetrics
from robo_rl.core.errors import ConfigError, PluginError
from robo_rl.data.rollout import Rollout
from robo_rl.optim.adaptive_lr import AdaptiveLr, AdaptiveLrConfig
from robo_rl.optim.captured_loss import CaptureConfig, captured
from robo_rl.optim.ema import Ema, Ewma
from robo_rl.optim.minibatches import Minibatch, Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.optim.precision import autocast
from robo_rl.optim.step_probe import probe_lr, step_target
from robo_rl.optim.step_rollback import StepRollback
from robo_rl.policy.base import DenoisingPolicy

RATIO_TOLERANCE = 1e-3
"""Of the mean |ratio − 1| before the first step; TF32 in convolutions leaves up to 5e-4."""


class ActorConfig(ObjectiveConfig, OptimizerConfig, AdaptiveLrConfig, CaptureConfig):
    """Optimiser settings of the actor; ``ObjectiveConfig`` holds those of the loss.

    ``target_kl`` is the target KL of a chain per update, in nats. A step that exceeds twice the
    target is rolled back and ends the update (``StepRollback``). The learning rate changes by a
    factor of 1.5 towards the target, within ``lr_min`` and ``lr_max``. The value 0 disables both.
    The KL is a mean over a minibatch, in which ``kl_trim`` limits the largest units
    (``winsorized_mean``).

    With ``lr_probe`` the first update begins with steps that are undone, and sets the learning rate
    by their KL (``probe_lr``). A fixed rate (``lr_min`` = ``lr_max``) and ``target_kl: 0`` disable
    the probe.

    ``proximal_ema`` is the decay of the weight average that centres the trust region, instead of
    the acting policy. ``ema_decay`` is the decay of the weight average that is evaluated and saved.
    Both apply per optimiser step, and 0 is off.

    ``freeze_encoder`` keeps the encoder's weights, and encodes each observation once an update.
    """

    omitted: ClassVar[tuple[str, ...]] = ("freeze_encoder",)

    freeze_encoder: bool = False
    """Whether the encoder of observations keeps its weights."""
    weight_decay: float = Field(default=0.0, ge=0.0)
    """Weight decay of AdamW."""
    epochs: int = Field(default=4, ge=1)
    """Epochs over a rollout."""
    target_kl: float = Field(default=0.1, ge=0.0)
    """Target KL of an update, in nats; the learning rate adapts to it; 0 is off."""
    kl_trim: float = Field(default=0.01, ge=0.0, lt=0.5)
    """Share of a minibatch's units whose KL is lowered to that of the next unit; 0 is off."""
    lr_probe: bool = True
    """Whether the KL of a step that is undone sets the learning rate of the first update."""
    proximal_ema: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Decay of the weight average that centres the trust region; 0 is off."""
    ema_decay: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Decay of the weight average that is evaluated and saved; 0 is off."""

    @model_validator(mode="after")
    def _one_policy_to_stay_near(self) -> ActorConfig:
        if self.proximal_ema and self.ratio_norm is RatioNorm.GUARD:
            raise ValueError("proximal_ema: ratio_norm 'guard' is relative to the acting policy")
        return self

    @model_validator(mode="after")
    def _nothing_read_in_a_graph(self) -> ActorConfig:
        repeats = self.ratio is RatioMode.PER_STEP or (
            self.ratio is RatioMode.CFM and self.cfm.per_sample
        )
        if self.cuda_graphs and repeats:
            unit = "cfm with per_sample" if self.ratio is RatioMode.CFM else self.ratio.value
            raise ValueError(
                f"cuda_graphs: minibatches of ratio '{unit}' have varying numbers of observations;"
                " set cuda_graphs to false, or ratio to joint, single_step or noise_conditioned"
            )
        return self

    @model_validator(mode="after")
    def _weighed_by_what_is_held(self) -> ActorConfig:
        if self.proximal_ema and self.ratio_reduction == "mean":
            raise ValueError("proximal_ema: weighs units by the ratio of sums, not of means")
        return self


class PpoActor(ActorUpdate):
    """A policy, its optimiser, and its weight averages.

    Args:
        cfg: See ``ActorConfig``.
        policy: Trained in place.
        generator: Draws minibatches, and noise for ratios and regularizers.

    Raises:
        ConfigError: The policy does not support the settings.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("proximal_ema", "average")

    def __init__(
        self, cfg: ActorConfig, policy: DenoisingPolicy, generator: torch.Generator
    ) -> None:
        check_policy_supports(cfg, policy)
        check_capturable(cfg, policy)
        self.cfg, self.policy, self.generator = cfg, policy, generator
        if cfg.regularization.needs_reference and policy.reference_net is None:
            policy.freeze_reference()
        if cfg.freeze_encoder:
            if policy.reference_net is not None:
                demand_shared_encoder(
                    policy.net,
                    policy.reference_net,
                    "the reference network has another encoder than the policy",
                    "false, or a policy whose encoder was not trained since its reference",
                )
            policy.net.encoder.requires_grad_(False)
        params = (p for p in policy.parameters() if p.requires_grad)
        self.optimizer = ClippedOptimizer(params, cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.rate = AdaptiveLr(self.optimizer, cfg.lr_min, cfg.lr_max)
        self.proximal_ema = Ewma(policy, cfg.proximal_ema) if cfg.proximal_ema else None
        self.average = Ema(policy, cfg.ema_decay) if cfg.ema_decay else None
        self._base: DenoisingPolicy | None = None

    def update(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        """Run epochs over all units until the chain's KL exceeds twice its target.

        Args:
            rollout: The rollout.
            adv: (N,) advantages of its valid decisions.

        Raises:
            PluginError: The ratio is not 1 before the first step.
        """
        with autocast(self.cfg.precision, self.policy):
            objective = self._objective(rollout, adv)
        stats, per_unit = list[SurrogateMetrics](), objective.likelihood.units_per_decision
        batches = Minibatches(
            objective.size, self.cfg.minibatch, self.generator, objective.shards(rollout)
        )

        if self._probes():
            self._probe(objective, batches)

        loss_of = captured(self.cfg, self.policy, partial(self._loss, objective))

        def measure(batch: Minibatch) -> tuple[Tensor, float]:
            found = loss_of(batch.indices)
            stats.append(found.metrics(batch.weight, self.cfg.kl_trim))
            if len(stats) == 1:
                _assert_fresh(stats[0].ratio_error)
            return found.loss, per_unit * stats[-1].kl.robust

        region = StepRollback(self.rate, self.cfg.target_kl, self._parts())
        region.descend(batches.epochs(self.cfg.epochs), measure, self._step)
        kl = stats[region.measurement].kl
        return self._metrics(stats, batches.per_epoch, region) | {
            "kl_mean": per_unit * kl.mean,
            "kl_max": kl.largest,
        }

    def eval_policy(self) -> DenoisingPolicy:
        """The averaged policy if ``ema_decay`` is set, else the trained policy."""
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

    def _loss(self, objective: Objective, pick: Tensor) -> SurrogateLoss:
        with autocast(self.cfg.precision, self.policy):
            return objective.loss(pick, self._proximal_policy())

    def _probes(self) -> bool:
        """Whether this update begins with a probe: the first one, unless the rate is fixed."""
        adapts = self.cfg.target_kl > 0.0 and self.cfg.lr_min < self.cfg.lr_max
        return self.cfg.lr_probe and adapts and self.optimizer.is_fresh

    def _probe(self, objective: Objective, batches: Minibatches) -> None:
        """Set the learning rate by a step on one minibatch, measured on another if there is one."""
        epoch, per_unit = list(batches), objective.likelihood.units_per_decision
        learnt, measured = epoch[0], epoch[1 % len(epoch)]

        def step() -> None:
            self.optimizer.step(self._loss(objective, learnt.indices).loss, learnt.weight)

        @torch.no_grad()
        def measure() -> float:
            found = self._loss(objective, measured.indices)
            return per_unit * found.metrics(measured.weight, self.cfg.kl_trim).kl.robust

        steps = self.cfg.epochs * batches.per_epoch
        probe_lr(self.rate, step_target(self.cfg.target_kl, steps), step, measure)

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
            self.cfg,
            self.policy,
            self._reference_policy(),
            rollout,
            adv,
            self.generator,
            frozen_encoder=self.cfg.freeze_encoder,
        )

    def _parts(self) -> list[Tensor]:
        """Tensors that a step changes, without the optimiser's own state."""
        averages = [part for ema in self._averages() for part in ema.mutable_tensors]
        return [*self.optimizer.params, *averages]

    def _metrics(
        self, stats: list[SurrogateMetrics], per_epoch: int, region: StepRollback
    ) -> dict[str, float]:
        """The final KL of the update, and means over its minibatches."""
        last = stats[-per_epoch:]
        return {
            "kl": region.distance,
            "clip_fraction": sum(s.clip_fraction for s in stats) / len(stats),
            "actor_steps": float(region.steps),
            "step_rollbacks": float(region.rollbacks),
            "ratio_error": stats[0].ratio_error,
            **{name: sum(s.extras[name] for s in last) / len(last) for name in last[0].extras},
        }


def check_capturable(cfg: ActorConfig, policy: DenoisingPolicy) -> None:
    """Check that a policy's loss can be a CUDA graph, if the settings ask for graphs.

    Raises:
        ConfigError: Its encoder keeps results from one call to the next.
    """
    if cfg.cuda_graphs and policy.net.encoder.caches:
        raise ConfigError(
            "a CUDA graph cannot hold an encoder that keeps features in memory",
            where="cuda_graphs",
            expected="false, or another encoder",
            found=f"encoder '{policy.cfg.encoder.name}'",
        )


def _assert_fresh(error: float) -> None:
    """Check that the ratio is 1 on the first minibatch: sampling and scoring agree."""
    if not error <= RATIO_TOLERANCE:  # also refuses NaN
        raise PluginError(
            "the likelihood ratio on the first minibatch is not 1",
            expected=f"mean |ratio − 1| ≤ {RATIO_TOLERANCE}",
            found=f"{error:.2e}",
            hint="sample() and kernel() disagree: dropout, batch norm, another time grid?",
        )
