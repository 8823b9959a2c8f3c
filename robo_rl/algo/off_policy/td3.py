"""TD3 on denoising chains: a deterministic policy gradient through the evaluation sampler.

Shapes: B rows, H horizon, A act_dim. Source: Fujimoto et al. 2018 (arXiv 1802.09477), algorithm 1,
except that the target critic follows at every step.

The trained map is the evaluation sampler: a Gaussian policy's mean, or a flow's ODE from new noise.
Gradients run through the trained steps, for example the last step of a flow with ``finetune_steps:
1``. The policy's sampler explores. Learnt noise stays constant, because the loss does not depend on
it.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.off_policy.actor import ActorTrainer, QFunction
from robo_rl.algo.off_policy.base import OffPolicy
from robo_rl.algo.off_policy.config import OffPolicyConfig
from robo_rl.algo.target_smoothing import smoothed
from robo_rl.core.errors import ConfigError
from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.optim.ema import TargetNetwork
from robo_rl.policy.base import DenoisingPolicy


class Td3Config(OffPolicyConfig):
    """Hyper-parameters; see ``OffPolicyConfig``.

    Targets use the averaged policy's action with noise of ``smoothing_std``, clipped to
    ±``smoothing_clip``, in network units. The decay of the policy average is ``target_ema``, as for
    the critic.
    """

    policy_delay: int = Field(default=2, ge=1)
    """Critic steps per actor step."""
    actor_aggregation: EnsembleAggregation.Config = EnsembleAggregation.Config(mode="mean")
    """How the ensemble is reduced to one value for the actor."""
    smoothing_std: float = Field(default=0.2, ge=0.0)
    """Standard deviation of the noise on the target's action, in network units."""
    smoothing_clip: float = Field(default=0.5, ge=0.0)
    """Clip of the noise on the target's action, in network units."""


class Td3(OffPolicy):
    """An actor that maximises Q with a policy delay, and critics of its averaged policy.

    Args:
        cfg: See Config.
        policy: Trained in place.
        num_envs: B of the env, for the running return scale.
        generator: Draws batches, noise and subsets of critics.

    Raises:
        ConfigError: The policy or the ensemble does not support the settings.
    """

    Config = Td3Config

    def __init__(
        self, cfg: Td3Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        actor = DeterministicActor(cfg, policy, generator)
        super().__init__(cfg, policy, num_envs, generator, actor)

    @classmethod
    def check_policy(cls, cfg: Td3Config, policy: DenoisingPolicy) -> None:
        """Refuse a policy that the reference KL does not support, or with stochastic evaluation."""
        ActorTrainer.check_policy(cfg, policy)
        _check_deterministic_eval(policy)


class DeterministicActor(ActorTrainer):
    """A policy under its evaluation sampler, and the average of its weights.

    Args:
        cfg: See ``Td3Config``.
        policy: Trained in place.
        generator: Draws noise.

    Raises:
        ConfigError: As for ``ActorTrainer``; or the evaluation is stochastic.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("average",)

    def __init__(self, cfg: Td3Config, policy: DenoisingPolicy, generator: torch.Generator) -> None:
        super().__init__(cfg, policy, generator)
        _check_deterministic_eval(policy)
        self.smoothing_std, self.smoothing_clip = cfg.smoothing_std, cfg.smoothing_clip
        self.average = TargetNetwork(policy, cfg.target_ema)

    def next_action(self, obs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the averaged policy's action with smoothing noise, at cost 0."""
        act = self._act(self.average.module, obs)
        act = smoothed(act, self.smoothing_std, self.smoothing_clip, self.generator)
        return act, torch.zeros_like(act[:, 0, 0])

    def update(self, obs: dict[str, Tensor], value: QFunction) -> dict[str, Tensor]:
        """Take one actor step on Q, and update the average."""
        act = self._act(self.policy, obs)
        cost, metrics = self.penalties(obs, act)
        self.optimizer.step(cost - value(obs, act).mean())
        self.average.update(self.policy)
        return metrics

    def _act(self, policy: DenoisingPolicy, obs: dict[str, Tensor]) -> Tensor:
        shape = len(next(iter(obs.values()))), policy.horizon, policy.act_spec.size
        return policy.decode_normalized(obs, policy.eval_sampler.start(shape, self.generator))


def _check_deterministic_eval(policy: DenoisingPolicy) -> None:
    if not policy.eval_is_deterministic:
        raise ConfigError(
            "algorithm 'td3' needs a deterministic evaluation sampler, and this one draws noise",
            expected="eval_eta 0",
            hint="set policy.eval_eta=0, or use algorithm 'ppo'",
        )
