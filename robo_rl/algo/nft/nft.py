"""DiffusionNFT: reinforcement learning on the forward process, for any sampler.

Shapes: N decisions. Actions that turned out well and actions that did not are noised anew and
drawn apart (see ``forward``): no chain is scored, so the policy may explore by the ODE from random
noise alone, or by whatever sampler it has. Source: Zheng et al. 2025, arXiv 2509.16117;
π-StepNFT (2603.02083) for robots.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.advantages.factory import AdvantageConfig, make_advantage_estimator
from robo_rl.algo.nft.acting_policy_ema import ActingPolicyEma, ema_update_
from robo_rl.algo.nft.forward_process import NftBatch, optimality
from robo_rl.algo.nft.objective import NftLosses, NftObjective, NftObjectiveConfig
from robo_rl.core.errors import ConfigError
from robo_rl.data.rollout import Rollout
from robo_rl.distributed.moments import global_mean
from robo_rl.optim.adaptive_lr import AdaptiveLr, AdaptiveLrConfig
from robo_rl.optim.ema import parameterless_modules
from robo_rl.optim.minibatches import Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.precision import autocast
from robo_rl.optim.scalars import numbers
from robo_rl.optim.step_rollback import StepRollback
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.matching import MatchingPolicy


class Nft:
    """A learner beside the policy that acts, which follows it with a lag.

    The policy that is handed in acts, and is what is kept and judged: its network is v_old, the
    one that the data come from. The learner begins an update where it ended the last one.

    Args:
        cfg: See Config.
        policy: Changed in place, a flow or diffusion policy.
        num_envs: B, for the running return scale.
        generator: Draws minibatches, noise and times.

    Raises:
        ConfigError: The policy is not cloned by undoing noise.
    """

    class Config(NftObjectiveConfig, AdvantageConfig, AdaptiveLrConfig):
        """Hyper-parameters; see ``NftObjectiveConfig`` and ``AdvantageConfig``.

        ``target_shift`` is the root mean square by which an update may move predicted actions, in
        normalised units: a step that leads above twice of it is taken back and ends the update,
        and the rate is steered towards it; 0 leaves both alone.
        """

        weight_decay: float = Field(default=0.0, ge=0.0)
        epochs: int = Field(default=4, ge=1)
        target_shift: float = Field(default=0.02, ge=0.0)
        acting_ema: ActingPolicyEma = ActingPolicyEma()

    single_step = False
    learns_together: ClassVar[bool] = True

    def __init__(
        self, cfg: Config, policy: DenoisingPolicy, num_envs: int, generator: torch.Generator
    ) -> None:
        self.cfg, self.policy, self.generator = cfg, _matching(policy), generator
        self.group_size = cfg.group_size
        self.advantage_estimator = make_advantage_estimator(cfg, policy, num_envs, generator)
        self.learner = copy.deepcopy(self.policy, parameterless_modules(self.policy))
        self.learner.reference_net = self.learner.reference_noise_head = None
        if cfg.reference_coef and policy.reference_net is None:
            policy.freeze_reference()
        self.base = self.policy.reference_policy() if cfg.reference_coef else None
        net = self.learner.net
        self.optimizer = ClippedOptimizer(net.parameters(), cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.rate = AdaptiveLr(self.optimizer, cfg.lr_min, cfg.lr_max)
        self.objective = NftObjective(cfg, self.policy, self.learner, generator)
        self.updates = 0

    @staticmethod
    def check_policy(cfg: Config, policy: DenoisingPolicy) -> None:
        """See ``Demanding``."""
        del cfg
        _matching(policy)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one block; returns metrics.

        Raises:
            PluginError: Rewards are not finite, or losses or gradients were not finite for long.
        """
        rollout, adv, metrics = self.advantage_estimator.compute_advantages(rollout)
        if self.updates >= self.advantage_estimator.warmup_updates and len(adv):
            decisions = NftBatch.of(rollout, optimality(adv, self.cfg.adv_clip))
            metrics |= self._fit(decisions, rollout.shards)
            metrics["adv_clip_fraction"] = float(
                global_mean((adv.abs() > self.cfg.adv_clip).float())
            )
            ema_update_(self.policy.net, self.learner.net, self.cfg.acting_ema.decay(self.updates))
        self.updates += 1
        skipped = metrics.get("skipped_steps", 0.0) + self.optimizer.skipped
        return metrics | {"lr": self.optimizer.lr, "skipped_steps": float(skipped)}

    def actor_state(self) -> dict[str, Any]:
        """The acting policy, the learner, and its optimiser."""
        return {
            "policy": self.policy.state_dict(),
            "learner": self.learner.state_dict(),
            "optim": self.optimizer.optim.state_dict(),
        }

    def rollback(self, state: dict[str, Any]) -> None:
        """Return to an earlier ``actor_state``, at half of the present rate, slowly more again."""
        lr = self.optimizer.lr
        self._load_actor(state)
        self.rate.halve_below(lr)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, as nested dicts of tensors and numbers."""
        rest = {"updates": self.updates, "ceiling": self.rate.ceiling}
        return self.actor_state() | self.advantage_estimator.state_dict() | rest

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from ``state_dict``."""
        self._load_actor(state)
        self.advantage_estimator.load_state_dict(state)
        self.updates, self.rate.ceiling = state["updates"], state["ceiling"]

    def _load_actor(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state["learner"])
        self.policy.load_state_dict(state["policy"])
        self.optimizer.optim.load_state_dict(state["optim"])
        self.base = self.policy.reference_policy() if self.cfg.reference_coef else None

    def _fit(self, data: NftBatch, shards: Tensor | None) -> dict[str, float]:
        """Epochs over the decisions, as long as predictions stay within twice the target."""
        stats: list[NftLosses] = []
        batches = Minibatches(len(data.act), self.cfg.minibatch, self.generator, shards)
        region = StepRollback(self.rate, self.cfg.target_shift, self.optimizer.params)
        for batch, goes_on in batches.epochs(self.cfg.epochs):
            with autocast(self.cfg.precision, self.learner):
                found = self.objective.loss(data.select(batch.indices), self.base)
            stats.append(found.all_reduce(batch.weight))
            if region.accepts(math.sqrt(stats[-1].action_shift_sq)) and goes_on:
                region.step(partial(self.optimizer.step, found.total, batch.weight))
            if region.done:
                break
        region.finish()
        last = stats[-batches.per_epoch :]
        return {
            "nft_loss": sum(numbers([s.total for s in stats])) / len(stats),
            "action_shift": region.distance,
            "reference_mse": sum(numbers([s.reference_mse for s in last])) / len(last),
        }


def _matching(policy: DenoisingPolicy) -> MatchingPolicy:
    if not isinstance(policy, MatchingPolicy):
        raise ConfigError(
            "algorithm 'nft' needs a policy that is cloned by undoing noise",
            expected="flow or diffusion",
            found=policy.family,
            hint="its likelihood is exact: use algorithm 'ppo'",
        )
    return policy
