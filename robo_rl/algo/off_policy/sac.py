"""Soft actor-critic on denoising chains; it never learns which policy family it trains.

Shapes: B rows, J trained steps with a density, H horizon, E executed actions, A act_dim. Source:
Haarnoja et al. 2018 (arXiv 1812.05905); REDQ (2101.05982) and RLPD (2302.02948) by ``target_aggregation``,
``utd_ratio`` and the replay's ``demo_fraction``.

What is drawn is a chain, a = x[K], and its probability that of its trained steps: for a Gaussian
policy, K = 1, the usual one, for a flow of which the last step is trained that of this step given
the others. Actions are not squashed by tanh. The MDP that is solved is the one whose actions are
unbounded and clipped by the env; it is well-posed because the learnt std is bounded, and so the
entropy, and because being out of range costs (see ``value_actor``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from robo_rl.algo.off_policy.actor import ActorTrainer, QFunction
from robo_rl.algo.off_policy.base import OffPolicy, OffPolicyConfig
from robo_rl.algo.off_policy.temperature import Temperature
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Prediction
from robo_rl.policy.kernel import Kernel

_FAR = 20.0
"""A raw noise level that is at the bound for all that float64 can tell."""


class SacConfig(OffPolicyConfig):
    """Hyper-parameters; see ``OffPolicyConfig``.

    The temperature is tuned until the entropy of what the policy draws is that of noise with
    ``target_std``, in network units, at every trained step: 0.09 is the usual −1 nat a dimension.
    ``entropy_in_target``: values hold future entropy, as in the papers; RLPD may leave it out. Of
    ``replay.n_step`` > 1 it has to: the replay knows what the decisions in between earned, not how
    random they were, and such a value would hold entropy only from the bootstrap on.
    """

    target_std: float = Field(default=0.1, gt=0.0)
    """Standard deviation of noise, in network units, whose entropy is the target."""
    temperature: float = Field(default=0.01, gt=0.0)
    """Temperature that training starts with, in the unit of values."""
    temperature_lr: float = Field(default=3e-4, ge=0.0)
    """Learning rate of the logarithm of the temperature; 0 keeps it."""
    entropy_in_target: bool = True
    """Whether values hold future entropy."""

    @model_validator(mode="after")
    def _values_hold_all_entropy_or_none(self) -> SacConfig:
        if self.entropy_in_target and self.replay.n_step > 1:
            raise ValueError(
                f"replay.n_step {self.replay.n_step}: the entropy of the decisions in between would"
                " be missing; set n_step to 1, or entropy_in_target to false"
            )
        return self


class Sac(OffPolicy):
    """An actor that climbs Q + temperature · entropy, and critics of the same.

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
        """Refuse a policy that an anchor cannot hold, or whose noise cannot be tuned."""
        ActorTrainer.check_policy(cfg, policy)
        _check_target_std(policy, cfg.target_std)


class SoftActor(ActorTrainer):
    """A policy that likes its draws to be unlikely, at a price that is learnt.

    Args:
        cfg: See ``SacConfig``.
        policy: Trained in place.
        generator: Draws actions.

    Raises:
        ConfigError: As ``Sac``.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("temperature",)

    def __init__(self, cfg: SacConfig, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        super().__init__(cfg, policy, generator)
        _check_target_std(policy, cfg.target_std)
        self.entropy_in_target = cfg.entropy_in_target
        target = entropy(policy, std=cfg.target_std)
        self.temperature = Temperature(
            cfg.temperature, cfg.temperature_lr, target, policy.normalizer.device
        )

    def next_action(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """A draw, and temperature · log-probability of it."""
        act, log_prob = self._draw(obs)
        return act, self.temperature.value * log_prob * self.entropy_in_target

    def update(self, obs: dict[str, Tensor], value: QFunction) -> dict[str, Tensor]:
        """One step of the policy up Q + temperature · entropy, one of the temperature."""
        act, log_prob = self._draw(obs)
        cost, metrics = self.penalties(obs, act)
        soft = value(obs, act) - self.temperature.value * log_prob
        self.optimizer.step(cost - soft.mean())
        found = -log_prob.detach().mean()
        self.temperature.step(found)
        return metrics | {"entropy": found, "temperature": self.temperature.value}

    def _draw(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """A chain's action (B, H, A) and the log-probability (B,) of its trained steps."""
        policy = self.policy
        chain = policy.sample(obs, self.generator, grad_steps=policy.num_trained)
        steps = policy.trainable_steps.nonzero().flatten().to(chain.x.device, non_blocking=True)
        executed = chain.log_prob.index_select(1, steps)[:, :, : policy.exec_horizon]
        return chain.act, executed.sum(dim=(1, 2, 3))


@torch.no_grad()
def entropy(policy: DenoisingPolicy, *, std: float | None = None, raw: float = 0.0) -> float:
    """Entropy of a decision's trained steps, of the executed actions, in nats.

    Args:
        policy: Whose steps: which of them have noise, and how it is correlated along the chunk.
        std: Of all of that noise, in network units; by default what follows from ``raw``.
        raw: Level of the learnt noise, as a network would say it.
    """
    steps = policy.trainable_steps.nonzero().flatten()
    x = torch.zeros(len(steps), policy.horizon, policy.act_spec.size, dtype=torch.float64)
    prediction = Prediction(x, torch.full_like(x, raw))
    kernel: Kernel = policy.sampler.kernel(steps, x, prediction)
    if std is not None:
        kernel = replace(kernel, std=torch.where(kernel.std > 0, std, 0.0))
    return float(kernel.entropy()[:, : policy.exec_horizon].sum())


def _check_target_std(policy: DenoisingPolicy, target_std: float) -> None:
    """Beyond the bounds of the noise no temperature is high or low enough.

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
    before = policy.progress
    for progress in (1.0, 0.0, before):  # bounds that are annealed run from the one to the other
        policy.set_progress(progress)
        low, high = (entropy(policy, raw=raw) for raw in (-_FAR, _FAR))
        if not low < entropy(policy, std=target_std) < high:
            raise ConfigError(
                "the noise that the temperature is tuned to is out of reach",
                where="target_std",
                expected="between the sampler's std_min and std_max throughout training",
                found=target_std,
            )
