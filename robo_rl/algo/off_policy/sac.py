"""Soft actor-critic on denoising chains, for every policy family.

Shapes: B rows, J trained steps with a density, H horizon, E executed actions, A act_dim. Source:
Haarnoja et al. 2018 (arXiv 1812.05905); REDQ (2101.05982) and RLPD (2302.02948) by
``target_aggregation``, ``utd_ratio`` and the replay's ``demo_fraction``.

An action is the end of a chain, a = x[K]. Its log-probability is that of the trained steps. For a
Gaussian policy, K = 1, this is the usual log-probability. For a flow with a trained last step it is
that of the last step given the others.

Actions are not squashed by tanh: they are unbounded, and the env clips them. The problem is
well-posed because the learnt std, and so the entropy, is bounded, and because ``off_policy.actor``
penalises actions out of range.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.algo.off_policy.actor import ActorTrainer, QFunction
from robo_rl.algo.off_policy.base import OffPolicy
from robo_rl.algo.off_policy.config import OffPolicyConfig
from robo_rl.algo.off_policy.temperature import Temperature
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Prediction
from robo_rl.policy.kernels.gaussian import GaussianKernel
from robo_rl.policy.noise import std_scale

_FAR = 20.0
"""A raw noise level whose std is at its bound within float64 precision."""

_MARGIN = 1e-6
"""Distance of the target entropy from its bounds, as a share of the distance between them."""


class SacConfig(OffPolicyConfig):
    """Hyper-parameters; see ``OffPolicyConfig``.

    The temperature is tuned so that the entropy of the policy equals that of noise with
    ``target_std`` at every trained step. Null is the geometric mean of the sampler's bounds. In
    units of the range 0.09 is the usual −1 nat per dimension.

    With ``entropy_in_target`` values include future entropy, as in the papers; RLPD may leave it
    out. With ``replay.n_step`` > 1 it must be off, because the replay does not store the entropy of
    the decisions in between.
    """

    target_std: float | None = Field(default=None, gt=0.0)
    """Std of the noise whose entropy is the target, in the sampler's ``std_unit``."""
    temperature: float = Field(default=0.01, gt=0.0)
    """Initial temperature, in the unit of values."""
    temperature_lr: float = Field(default=3e-4, ge=0.0)
    """Learning rate of the log temperature; 0 keeps the temperature fixed."""
    entropy_in_target: bool = True
    """Whether values include future entropy."""

    @model_validator(mode="after")
    def _values_hold_all_entropy_or_none(self) -> SacConfig:
        if self.entropy_in_target and self.replay.n_step > 1:
            raise ValueError(
                f"replay.n_step {self.replay.n_step}: the entropy of the decisions in between would"
                " be missing; set n_step to 1, or entropy_in_target to false"
            )
        return self


class Sac(OffPolicy):
    """An actor that maximises Q + temperature · entropy, and critics of the same objective.

    Args:
        cfg: See Config.
        policy: Trained in place; its sampler learns its noise.
        num_envs: B of the env, for the running return scale.
        generator: Draws batches, actions and subsets of critics.

    Raises:
        ConfigError: The policy's noise is not learnt, or ``target_std`` is beyond its bounds.
    """

    Config = SacConfig

    def __init__(
        self, cfg: SacConfig, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        super().__init__(cfg, policy, num_envs, generator, SoftActor(cfg, policy, generator))

    @classmethod
    def check_policy(cls, cfg: SacConfig, policy: DenoisingPolicy) -> None:
        """Refuse a policy that the reference KL does not support, or with fixed noise."""
        ActorTrainer.check_policy(cfg, policy)
        _check_target_std(policy, cfg.target_std)


class SoftActor(ActorTrainer):
    """An actor with an entropy bonus and a learnt temperature.

    Args:
        cfg: See ``SacConfig``.
        policy: Trained in place.
        generator: Draws actions.

    Raises:
        ConfigError: As for ``Sac``.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("temperature",)

    def __init__(self, cfg: SacConfig, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        super().__init__(cfg, policy, generator)
        _check_target_std(policy, cfg.target_std)
        self.entropy_in_target = cfg.entropy_in_target
        self.temperature = Temperature(
            cfg.temperature,
            cfg.temperature_lr,
            _target_entropy(policy, cfg.target_std),
            policy.normalizer.device,
        )

    def next_action(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return a sampled action and temperature · log-probability as its cost."""
        act, log_prob = self._draw(obs)
        return act, self.temperature.value * log_prob * self.entropy_in_target

    def update(self, obs: dict[str, Tensor], value: QFunction) -> dict[str, Tensor]:
        """Take one step of the policy on Q + temperature · entropy, and one of the temperature."""
        act, log_prob = self._draw(obs)
        cost, metrics = self.penalties(obs, act)
        soft = value(obs, act) - self.temperature.value * log_prob
        self.optimizer.step(cost - soft.mean())
        found = -log_prob.detach().mean()
        self.temperature.step(found)
        return metrics | {"entropy": found, "temperature": self.temperature.value}

    def _draw(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Sample a chain's action (B, H, A) and the log-probability (B,) of its trained steps."""
        policy = self.policy
        chain = policy.sample(obs, self.generator, grad_steps=policy.num_trained)
        steps = policy.trainable_steps.nonzero().flatten().to(chain.x.device, non_blocking=True)
        executed = chain.log_prob.index_select(1, steps)[:, :, : policy.exec_horizon]
        return chain.act, executed.sum(dim=(1, 2, 3))


@torch.no_grad()
def entropy(policy: DenoisingPolicy, *, std: float | None = None, raw: float = 0.0) -> float:
    """Entropy of a decision's trained steps over the executed actions, in nats.

    Args:
        policy: Defines the stochastic steps and the correlation of noise along the chunk.
        std: Std of the noise at every stochastic step, in the sampler's ``std_unit``; by default
            from ``raw``.
        raw: Raw output of the learnt noise level; 0 is the geometric mean of the bounds.
    """
    steps = policy.trainable_steps.nonzero().flatten()
    x = torch.zeros(len(steps), policy.horizon, policy.act_spec.size, dtype=torch.float64)
    prediction = Prediction(x, torch.full_like(x, raw))
    kernel = cast(GaussianKernel, policy.sampler.kernel(steps, x, prediction))
    if std is not None:
        kernel = replace(kernel, std=std * _unit(policy) * (kernel.std > 0))
    return float(kernel.entropy()[:, : policy.exec_horizon].sum())


def _unit(policy: DenoisingPolicy) -> Tensor:
    """Return the sampler's ``std_unit`` in network units, (A,) or a number."""
    options = policy.cfg.sampler.cfg, policy.act_spec, policy.normalizer, policy.exec_horizon
    scale = std_scale(*options)
    return scale[0] if scale else torch.ones((), dtype=torch.float64)


def _target_entropy(policy: DenoisingPolicy, target_std: float | None) -> float:
    """Return the entropy of ``target_std``; for null, by the bounds at the start of training."""
    before = policy.progress
    policy.set_progress(0.0)
    target = entropy(policy, std=target_std)
    policy.set_progress(before)
    return target


def _check_target_std(policy: DenoisingPolicy, target_std: float | None) -> None:
    """Check that ``target_std`` is between the bounds of the learnt noise.

    Raises:
        ConfigError: There is no learnt noise, or the target is not between its bounds.
    """
    if not policy.sampler.learns_noise or not bool(policy.trainable_steps.any()):
        raise ConfigError(
            "algorithm 'sac' needs a policy that learns its noise",
            expected="sampler gaussian or flow_noise",
            found=policy.cfg.sampler.name,
            hint="algorithm 'td3' takes any sampler",
        )
    target, before = _target_entropy(policy, target_std), policy.progress
    for progress in (1.0, 0.0, before):  # annealed bounds are extreme at one end
        policy.set_progress(progress)
        low, high = (entropy(policy, raw=raw) for raw in (-_FAR, _FAR))
        margin = _MARGIN * (high - low)
        if not low + margin < target < high - margin:
            raise ConfigError(
                "the noise that the temperature is tuned to is out of reach",
                where="target_std",
                expected="above the sampler's std_min and below its std_max throughout training",
                found="null, the geometric mean of both" if target_std is None else target_std,
            )
