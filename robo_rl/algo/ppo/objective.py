"""The actor's objective on a rollout: the trust-region loss, entropy and regularizers.

Shapes: N decisions, U units of J denoising steps, R of a minibatch, K denoising steps.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.algo.ppo.batch.actor_batch import ActorBatch, unit_sums
from robo_rl.algo.ppo.cfm_ratio import CfmLikelihood, as_matching_policy
from robo_rl.algo.ppo.likelihood_ratio import ChainLikelihood, Likelihood, LogRatios
from robo_rl.algo.ppo.ratio_norm import RatioNorm
from robo_rl.algo.ppo.ratio_units import RatioMode, Units, make_units, units_per_decision
from robo_rl.algo.ppo.regularizers import RegularizationConfig, Regularizer
from robo_rl.algo.ppo.surrogate_loss import SurrogateLoss, TrustRegionConfig, surrogate
from robo_rl.algo.ppo.trust_region import Epsilon, TrustRegion, clip_ramp
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout
from robo_rl.optim.precision import Precision, PrecisionConfig
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Kernel


class ObjectiveConfig(PrecisionConfig):
    """Sample unit, trust region, and additional terms of the loss.

    ``ratio`` selects the sample unit. A unit's likelihood is a sum over its elements, and ``clip``
    is ε of the ratio in these joint units. With ``ratio_reduction: mean``, ratio, ε and entropy use
    the mean over elements, as some published settings do. KLs stay joint.

    ``clip_high`` is a separate ε above 1. ``clip_base`` is ε at the noisiest trained step, from
    which ε rises along the chain. For both, 0 is off. With ``ratio_norm: guard`` ε bounds the
    change of a step's mean equally at all steps.

    The loss clips |ln r| to ``log_ratio_max``; a unit beyond it has no gradient. The same bound
    holds for the weights of reused rollouts.
    ``denoise_discount`` is γ_den of per_step. ``entropy_coef`` weighs a unit's joint entropy in
    nats, for learnt noise; 0 is off.
    """

    ratio: RatioMode = RatioMode.JOINT
    """Sample unit of the likelihood ratio."""
    ratio_reduction: Literal["sum", "mean"] = "sum"
    """Whether the log-ratio is the sum or the mean over a unit's elements."""
    cfm: CfmLikelihood.Config = CfmLikelihood.Config()
    """Estimate of the ratio if ``ratio`` is ``cfm``."""
    trust_region: TrustRegion = TrustRegion.CLIP
    """Trust-region loss of the ratio."""
    clip: float = Field(default=0.2, gt=0.0)
    """ε of the trust region, in joint units."""
    clip_high: float = Field(default=0.0, ge=0.0)
    """ε above 1; 0 takes ``clip``."""
    clip_base: float = Field(default=0.0, ge=0.0)
    """ε at the noisiest trained step; 0 takes ``clip``."""
    ratio_norm: RatioNorm = RatioNorm.NONE
    """Whether ratios are normalised across denoising steps (GRPO-Guard)."""
    log_ratio_max: float = Field(default=5.0, gt=0.0)
    """Largest absolute log-ratio in the loss."""
    denoise_discount: float = Field(default=0.99, gt=0.0, le=1.0)
    """Discount per denoising step if ``ratio`` is ``per_step``."""
    entropy_coef: float = Field(default=0.0, ge=0.0)
    """Weight of the entropy of a unit, in nats; 0 is off."""
    regularization: RegularizationConfig = RegularizationConfig()
    """Penalties towards the reference policy or the acting policy."""

    @model_validator(mode="after")
    def _options_fit_the_ratio(self) -> ObjectiveConfig:
        stepwise = self.ratio in (RatioMode.PER_STEP, RatioMode.SINGLE_STEP)
        if self.clip_base and not stepwise:
            raise ValueError(f"clip_base: a unit of ratio '{self.ratio}' has no single step")
        guarded = self.ratio_norm is RatioNorm.GUARD
        if guarded and self.ratio_reduction == "mean":
            raise ValueError("ratio_reduction: ratio_norm 'guard' is of sums")
        kernels = {
            "ratio_norm": guarded,
            "entropy_coef": self.entropy_coef,
            "regularization": self.regularization.enabled,
        }
        for name, used in kernels.items():
            if used and self.ratio is RatioMode.CFM:
                raise ValueError(f"{name}: ratio 'cfm' has no kernels to work on")
        return self


class Objective:
    """The loss of a rollout's minibatches.

    Args:
        cfg: See ``ObjectiveConfig``.
        policy: The policy under training.
        base: The reference policy; None if no regularizer needs it.
        rollout: The rollout.
        adv: (N,) advantages of its valid decisions.
        generator: Source of noise for ratios and regularizers.
        acted: The acting policy; ``policy`` by default.
        closed_form_kl: See ``ChainLikelihood``.
        frozen_encoder: Whether all policies have one encoder, which is not trained.
    """

    def __init__(
        self,
        cfg: ObjectiveConfig,
        policy: DenoisingPolicy,
        base: DenoisingPolicy | None,
        rollout: Rollout,
        adv: Tensor,
        generator: torch.Generator,
        acted: DenoisingPolicy | None = None,
        *,
        closed_form_kl: bool = True,
        frozen_encoder: bool = False,
    ) -> None:
        self.cfg, self.policy = cfg, policy
        weighted = _weighted(adv, rollout, cfg.log_ratio_max)
        self.data = ActorBatch.of(rollout, weighted, policy if frozen_encoder else None)
        if cfg.ratio is RatioMode.NOISE_CONDITIONED:
            self.data = self.data.replayed(acted or policy)
        self._steps = policy.trainable_steps.nonzero().flatten().to(adv.device)
        self._closed_form_kl = closed_form_kl
        self.likelihood = self._make_likelihood(acted or policy, rollout, generator)
        self._anchor = None
        if cfg.regularization.enabled:
            units = self.likelihood.units
            self._anchor = Regularizer(
                cfg.regularization, policy, base, self.data, units, generator
            )

    @property
    def size(self) -> int:
        """U, the number of units."""
        return len(self.likelihood.units.row)

    def shards(self, rollout: Rollout) -> Tensor | None:
        """(U,) the shard of each unit, see ``Rollout.shard``."""
        parts = rollout.shards
        return None if parts is None else parts[self.likelihood.units.row]

    def loss(self, pick: Tensor, proximal: DenoisingPolicy | None = None) -> SurrogateLoss:
        """Return the loss of the units ``pick`` (R,).

        Args:
            pick: Indices of units.
            proximal: Centre of the trust region; the acting policy by default.
        """
        units, behind = self.likelihood.units.select(pick), None
        scored = self.likelihood.score(self.policy, pick)
        scored = scored._replace(
            trust_region_log_ratio=scored.trust_region_log_ratio / self._terms(units, scored.kernel)
        )
        if proximal is not None:
            with torch.no_grad():
                behind = self.likelihood.score(proximal, pick).log_ratio
        adv = self.data.adv[units.row] * self._step_discount(units.k)
        found = surrogate(scored, adv, self._trust_region(units.k), behind)
        return self._with_extras(found, scored, pick)

    def _make_likelihood(
        self, policy: DenoisingPolicy, rollout: Rollout, generator: torch.Generator
    ) -> Likelihood:
        cfg, rows = self.cfg, len(self.data.adv)
        if cfg.ratio is RatioMode.CFM:
            return CfmLikelihood(cfg.cfm, policy, self.data, generator)
        k_star = None if rollout.k_star is None else rollout.rows(rollout.k_star)
        units = make_units(cfg.ratio, rows, self._steps, k_star)
        share = units_per_decision(cfg.ratio, self._steps)
        return ChainLikelihood(
            policy,
            self.data,
            units,
            units_per_decision=share,
            norm=cfg.ratio_norm,
            rescore=cfg.precision is not Precision.FP32,
            closed_form_kl=self._closed_form_kl,
        )

    def _with_extras(self, found: SurrogateLoss, scored: LogRatios, pick: Tensor) -> SurrogateLoss:
        """Add the entropy bonus and the regularizers."""
        loss, extras = found.loss, dict[str, Tensor]()
        if scored.kernel is not None and self.cfg.entropy_coef:
            units = self.likelihood.units.select(pick)
            entropy = unit_sums(scored.kernel.entropy(), self.data, units).sum(-1)
            entropy = (entropy / self._terms(units, scored.kernel)).mean()
            loss = loss - self.cfg.entropy_coef * entropy
            extras["entropy"] = entropy.detach()
        if scored.kernel is not None and self._anchor is not None:
            penalties = self._anchor.penalties(self.policy, scored.kernel, pick)
            loss = loss + self._anchor.total(penalties)
            extras |= {f"regularization/{name}": p.detach().mean() for name, p in penalties.items()}
        return found._replace(loss=loss, extras=extras)

    def _terms(self, units: Units, kernel: Kernel | None) -> Tensor | float:
        """Divisors (R,) of units' sums: the number of scored elements for ``mean``, else 1."""
        if self.cfg.ratio_reduction == "sum":
            return 1.0
        if kernel is not None:
            return unit_sums(kernel.has_density(), self.data, units).sum(-1).clamp(min=1)
        actions = self.data.executed[units.row].sum(dim=(1, 2)).clamp(min=1)
        return actions * self.data.x.shape[-1]  # a mean over draws without kernels

    def _step_discount(self, k: Tensor) -> Tensor | float:
        """γ_den^(K−1−k) for per_step units, else 1 (DPPO, arXiv 2409.00588, section 4.3)."""
        if self.cfg.ratio is not RatioMode.PER_STEP:
            return 1.0
        return self.cfg.denoise_discount ** (self.policy.num_steps - 1 - k[:, 0]).float()

    def _trust_region(self, k: Tensor) -> TrustRegionConfig:
        low, high = (self._epsilon(each, k) for each in (self.cfg.clip, self._clip_high))
        return TrustRegionConfig(self.cfg.trust_region, low, high, self.cfg.log_ratio_max)

    def _epsilon(self, epsilon: float, k: Tensor) -> Epsilon:
        if not self.cfg.clip_base:
            return epsilon
        place = torch.searchsorted(self._steps, k[:, 0].contiguous())
        last = len(self._steps) - 1  # a single step is the last one
        return clip_ramp(self.cfg.clip_base, epsilon, (place + (last == 0)) / max(last, 1))

    @property
    def _clip_high(self) -> float:
        return self.cfg.clip_high or self.cfg.clip


def _weighted(adv: Tensor, rollout: Rollout, limit: float) -> Tensor:
    """Weigh decisions by the acting policy's ratio to their collector, within e^±limit."""
    if rollout.policy_log_ratio is None:
        return adv
    return adv * rollout.rows(rollout.policy_log_ratio).clamp(-limit, limit).exp()


def check_policy_supports(cfg: ObjectiveConfig, policy: DenoisingPolicy) -> None:
    """Check that the policy supports the settings.

    Raises:
        ConfigError: The policy has no density, no noise at the last step, no learnt noise, or no
            cloning loss.
    """
    if not policy.reparameterized:
        _refuse_noise(cfg, policy)
    if cfg.ratio is RatioMode.CFM:
        as_matching_policy(policy)
    elif not bool(policy.trainable_steps.any()):
        raise ConfigError(
            "no denoising step is both stochastic and trained",
            hint="use an exploring sampler (flow_noise, flow_sde …), or more finetune_steps",
        )
    elif cfg.ratio is RatioMode.NOISE_CONDITIONED and not bool(policy.trainable_steps[-1]):
        raise ConfigError(
            "ratio 'noise_conditioned' scores the last denoising step, which draws no noise",
            expected="a sampler with noise at the last step",
            found=policy.cfg.sampler.name,
            hint="use flow_noise, flow_sde, or ddim and ddpm with std_min above 0",
        )
    if cfg.entropy_coef and not policy.learns_spread:
        raise ConfigError(
            "an entropy bonus needs noise that is learnt",
            expected="a sampler such as flow_noise or gaussian",
            found=policy.cfg.sampler.name,
            hint="set entropy_coef to 0; this sampler's noise is fixed in its config",
        )


def _refuse_noise(cfg: ObjectiveConfig, policy: DenoisingPolicy) -> None:
    """Refuse settings that are of Gaussian noise."""
    for name, used in (
        ("ratio: noise_conditioned", cfg.ratio is RatioMode.NOISE_CONDITIONED),
        ("ratio_norm: guard", cfg.ratio_norm is RatioNorm.GUARD),
    ):
        if used:
            raise ConfigError(
                f"'{name}' is of Gaussian noise, which this policy does not draw",
                expected="ratio joint, per_step or single_step, and ratio_norm none",
                found=f"policy '{policy.family}'",
            )
