"""The actor update of NFT: fits a learner policy to rollouts of the acting policy."""

from __future__ import annotations

import copy
import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.nft.acting_policy_ema import ema_update_
from robo_rl.algo.nft.forward_process import NftBatch, optimality
from robo_rl.algo.nft.objective import NftLosses, NftObjective, NftObjectiveConfig
from robo_rl.algo.on_policy import ActorUpdate
from robo_rl.data.rollout import Rollout
from robo_rl.distributed.moments import global_mean
from robo_rl.optim.adaptive_lr import AdaptiveLr, AdaptiveLrConfig
from robo_rl.optim.ema import parameterless_modules
from robo_rl.optim.minibatches import Minibatch, Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.optim.precision import PrecisionConfig, autocast
from robo_rl.optim.scalars import numbers
from robo_rl.optim.step_rollback import StepRollback
from robo_rl.policy.families.matching import MatchingPolicy


class NftActorConfig(NftObjectiveConfig, PrecisionConfig, OptimizerConfig, AdaptiveLrConfig):
    """Optimiser settings of the learner; ``NftObjectiveConfig`` holds those of the loss.

    ``target_shift`` is the target root mean square change of predicted actions per update, in
    normalised units, from the learner at the start of the update; for diffusion, of √ᾱ times the
    actions. A step that exceeds twice the target is rolled back and ends the update. The learning
    rate is adapted towards the target. The value 0 disables both.
    """

    weight_decay: float = Field(default=0.0, ge=0.0)
    """Weight decay of AdamW."""
    epochs: int = Field(default=4, ge=1)
    """Passes over a rollout."""
    target_shift: float = Field(default=0.02, ge=0.0)
    """Target of how far an update moves actions, RMS in network units; 0 is no limit."""


class NftActor(ActorUpdate):
    """Holds the acting policy, the learner policy, and the learner's optimizer.

    Args:
        cfg: See ``NftActorConfig``.
        policy: The acting policy; ``update`` does not change its weights.
        generator: Draws minibatches, noise and times.
    """

    state_parts: ClassVar[tuple[str, ...]] = ("learner",)
    policy: MatchingPolicy

    def __init__(
        self, cfg: NftActorConfig, policy: MatchingPolicy, generator: torch.Generator
    ) -> None:
        self.cfg, self.policy, self.generator = cfg, policy, generator
        self.learner = copy.deepcopy(policy, parameterless_modules(policy))
        self.learner.reference_net = self.learner.reference_noise_head = None
        if cfg.reference_coef and policy.reference_net is None:
            policy.freeze_reference()
        self.reference = policy.reference_policy() if cfg.reference_coef else None
        net = self.learner.net
        self.optimizer = ClippedOptimizer(net.parameters(), cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.rate = AdaptiveLr(self.optimizer, cfg.lr_min, cfg.lr_max)
        self.started = copy.deepcopy(self.learner, parameterless_modules(policy))
        self.objective = NftObjective(cfg, policy, self.learner, self.started, generator)

    def update(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        """Run epochs over the rollout until the action shift exceeds twice the target."""
        ema_update_(self.started.net, self.learner.net, 0.0)
        data, stats = NftBatch.of(rollout, optimality(adv, self.cfg.adv_clip)), list[NftLosses]()
        size, rows = len(data.act), self.cfg.minibatch
        batches = Minibatches(size, rows, self.generator, rollout.shards)

        def measure(batch: Minibatch) -> tuple[Tensor, float]:
            with autocast(self.cfg.precision, self.learner):
                found = self.objective.loss(data.select(batch.indices), self.reference)
            stats.append(found.all_reduce(batch.weight))
            return found.total, math.sqrt(stats[-1].action_shift_sq)

        params = self.optimizer.params
        region = StepRollback(self.rate, self.cfg.target_shift, params, power=1.0)
        region.descend(batches.epochs(self.cfg.epochs), measure, self.optimizer.step)
        last = stats[-batches.per_epoch :]
        return {
            "nft_loss": sum(numbers([s.total for s in stats])) / len(stats),
            "action_shift": region.distance,
            "reference_mse": sum(numbers([s.reference_mse for s in last])) / len(last),
            "adv_clip_fraction": float(global_mean((adv.abs() > self.cfg.adv_clip).float())),
        }

    def _loaded(self) -> None:
        self.reference = self.policy.reference_policy() if self.cfg.reference_coef else None
