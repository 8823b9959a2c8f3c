"""The actor's part of NFT: a learner beside the policy that acts, fitted to a rollout."""

from __future__ import annotations

import copy
import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.algo.nft.forward_process import Decisions, optimality
from robo_rl.algo.nft.objective import Losses, NftObjective, NftObjectiveConfig
from robo_rl.algo.on_policy import ActorUpdate
from robo_rl.data.rollout import Rollout
from robo_rl.distributed.moments import mean
from robo_rl.optim.adaptive_lr import AdaptiveLr, AdaptiveLrConfig
from robo_rl.optim.ema import parameterless_modules
from robo_rl.optim.minibatches import Batch, Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer, OptimizerConfig
from robo_rl.optim.precision import PrecisionConfig, autocast
from robo_rl.optim.step_rollback import Region
from robo_rl.policy.matching import MatchingPolicy


class NftActorConfig(NftObjectiveConfig, PrecisionConfig, OptimizerConfig, AdaptiveLrConfig):
    """How fast the learner learns; the rest is in ``NftObjectiveConfig``.

    ``target_shift`` is the root mean square by which an update may move predicted actions, in
    normalised units: a step that leads above twice of it is taken back and ends the update, and the
    rate is steered towards it; 0 leaves both alone.
    """

    weight_decay: float = Field(default=0.0, ge=0.0)
    epochs: int = Field(default=4, ge=1)
    target_shift: float = Field(default=0.02, ge=0.0)


class NftActor(ActorUpdate):
    """The acting policy, the learner, and the learner's optimizer.

    Args:
        cfg: See ``NftActorConfig``.
        policy: The acting policy; ``fit`` leaves its weights alone.
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
        if cfg.base and policy.reference_net is None:
            policy.anchor()
        self.base = policy.base() if cfg.base else None
        net = self.learner.net
        self.descent = ClippedOptimizer(net.parameters(), cfg.lr, cfg.grad_clip, cfg.weight_decay)
        self.rate = AdaptiveLr(self.descent, cfg.lr_min, cfg.lr_max)
        self.objective = NftObjective(cfg, policy, self.learner, generator)

    def fit(self, rollout: Rollout, adv: Tensor) -> dict[str, float]:
        """Epochs over the decisions, as long as predictions stay within twice the target."""
        data, stats = Decisions.of(rollout, optimality(adv, self.cfg.adv_clip)), list[Losses]()
        size, rows = len(data.act), self.cfg.minibatch
        batches = Minibatches(size, rows, self.generator, rollout.shards)

        def look(batch: Batch) -> tuple[Tensor, float]:
            with autocast(self.cfg.precision, self.learner):
                found = self.objective.loss(data.at(batch.pick), self.base)
            stats.append(found.over_all(batch.share))
            return found.total, math.sqrt(stats[-1].moved)

        region = Region(self.rate, self.cfg.target_shift, self.descent.params)
        region.descend(batches.passes(self.cfg.epochs), look, self.descent.step)
        last = stats[-batches.per_epoch :]
        return {
            "nft_loss": sum(float(s.total.detach()) for s in stats) / len(stats),
            "shift": region.moved,
            "reference_mse": sum(float(s.reference_mse) for s in last) / len(last),
            "adv_clip_fraction": float(mean((adv.abs() > self.cfg.adv_clip).float())),
        }

    def _loaded(self) -> None:
        self.base = self.policy.base() if self.cfg.base else None
