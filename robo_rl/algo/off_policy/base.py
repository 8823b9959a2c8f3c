"""Off-policy actor-critic learning from a replay buffer: the shared part of SAC and TD3.

Shapes: B rows of a batch, M critics, H horizon, A act_dim. Each rollout is added to the replay
buffer, and gradient steps follow in proportion to its decisions. The critic learns

    Q(o, a) ← rew + discount·(1 − terminated)·(aggregate_i Q'_i(o', a') − cost')

over whole chunks. Q' is the target network; the actor supplies a' and its cost. The actor maximises
Q. Neither depends on the family of the policy.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from robo_rl.algo.advantages.gae import ReturnScale
from robo_rl.algo.base import Algorithm
from robo_rl.algo.off_policy.actor import ActorTrainer
from robo_rl.algo.off_policy.config import OffPolicyConfig
from robo_rl.algo.off_policy.dynamics_reweighting import DynamicsGap
from robo_rl.algo.off_policy.td_targets import make_backup
from robo_rl.core.memory import demand_disk, demand_memory
from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.critic.q import QCritic
from robo_rl.critic.q_learner import QLearner
from robo_rl.data.images.image_augmentation import ImageAugmentation
from robo_rl.data.replay import Replay, Transitions
from robo_rl.data.rollout import Rollout
from robo_rl.optim.ema import TargetNetwork
from robo_rl.optim.optimizer import frozen_weights
from robo_rl.optim.scalars import read
from robo_rl.policy.base import DenoisingPolicy

_FILES_PER_RING = 2
"""Size of the files of images over that of the ring; older rows wait for older checkpoints."""


class OffPolicy(Algorithm):
    """An actor, an ensemble of critics with its target network, and a replay buffer.

    Demonstrations are added before the state of a checkpoint is loaded.

    Args:
        cfg: See ``OffPolicyConfig``.
        policy: Trained in place.
        num_envs: B of the env, for the running return scale.
        generator: Draws batches, actions and subsets of critics.
        actor: Trains the policy.

    Raises:
        ConfigError: The policy or the ensemble does not support the settings.
    """

    actor_parts: ClassVar[tuple[str, ...]] = ("actor", "q_learner", "scale", "warmup_left")
    state_parts: ClassVar[tuple[str, ...]] = (
        *actor_parts, "replay", "dynamics_gap", "decisions", "steps", "pending_steps"
    )  # fmt: skip

    def __init__(
        self,
        cfg: OffPolicyConfig,
        policy: DenoisingPolicy,
        num_envs: int,
        generator: torch.Generator,
        actor: ActorTrainer,
    ) -> None:
        super().__init__(policy, generator)
        self.cfg, self.actor, self.needs_critics = cfg, actor, cfg.warm_start_critics
        self.takes_demonstrations = self.learns_from_dataset(cfg)
        critic = QCritic.of_policy(cfg.critic, policy)
        self.q_learner = QLearner(
            critic, lr=cfg.critic_lr, grad_clip=cfg.grad_clip, target_ema=cfg.target_ema
        )
        rule = EnsembleAggregation(cfg.target_aggregation, cfg.critic.members)
        self.backup = make_backup(self.critic, self.target.module, rule, generator)
        gap = cfg.dynamics_gap
        self.dynamics_gap = None if gap is None else DynamicsGap(gap, self.critic, generator)
        self.actor_aggregation = EnsembleAggregation(cfg.actor_aggregation, cfg.critic.members)
        self.replay = Replay(cfg.replay, policy.normalizer.device)
        self.augment = ImageAugmentation(cfg.augmentation, policy.obs_spec.image_names)
        self.scale = ReturnScale(num_envs)
        self.decisions = self.steps = 0
        self.pending_steps, self.warmup_left = 0.0, cfg.critic_warmup_steps

    @classmethod
    def check_resources(cls, cfg: OffPolicyConfig, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``Learner``: a full replay buffer, whose images are in files."""
        spec, what = policy.env_spec, f"a replay buffer of {cfg.replay.capacity:,} rows"
        rows = cfg.replay.capacity * policy.obs_horizon
        hint = "lower algo.replay.capacity, or the size of the images"
        demand_disk(_FILES_PER_RING * rows * spec.image_bytes, folder, what, hint)
        if policy.device.type == "cpu":
            needed = 2 * rows * (spec.num_bytes - spec.image_bytes)  # the table doubles by copying
            demand_memory(needed, what, hint)

    def keep_files_in(self, folder: Path) -> None:
        """See ``Algorithm``: the images of the replay buffer."""
        self.check_resources(self.cfg, self.policy, folder)
        self.replay.keep_images_in(folder, self.policy.env_spec.image_names)

    @property
    def critic(self) -> QCritic:
        """The ensemble of critics."""
        return self.q_learner.critic

    @property
    def target(self) -> TargetNetwork[QCritic]:
        """The target network of the critics."""
        return self.q_learner.target

    @property
    def lr(self) -> float:
        """The current learning rate of the actor."""
        return self.actor.optimizer.lr

    @classmethod
    def learns_from_dataset(cls, cfg: OffPolicyConfig) -> bool:
        """See ``Algorithm``: unless their share of a minibatch is zero."""
        return cfg.replay.demo_fraction > 0

    @property
    def needs_demonstrations(self) -> tuple[str, ...]:
        """Settings that need logged transitions."""
        wanted = {
            "dynamics_gap": self.dynamics_gap is not None,
            "replay.corrections": self.cfg.replay.corrections,
        }
        return tuple(name for name, is_wanted in wanted.items() if is_wanted)

    def add_demonstrations(self, transitions: dict[str, Tensor]) -> None:
        """Add demonstrations; call before the first rollout."""
        self.replay.add_demonstrations(transitions)

    def check_demonstrations(self) -> None:
        """See ``Algorithm``: corrections that are requested must exist."""
        self.replay.check_corrections()

    def critic_weights(self) -> Mapping[str, Tensor]:
        """The weights of the critic networks."""
        return self.critic.net.state_dict()

    def warm_start_critics(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights into the critics and their target network, before the first rollout."""
        self.critic.net.load_state_dict(weights)
        self.target.module.net.load_state_dict(weights)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one rollout; returns metrics, means over the gradient steps.

        Raises:
            PluginError: Rewards are not finite, or losses or gradients were not finite for long.
        """
        self.scale.update(rollout.rew, rollout.discount, rollout.terminated | rollout.truncated)
        self.replay.add(rollout)
        metrics = _Means()
        for _ in range(self._due(int(rollout.valid.sum()))):
            metrics.add(self._step())
        self.updates += 1
        optimizers = [
            self.q_learner.optimizer,
            self.actor.optimizer,
            *([self.dynamics_gap.optimizer] if self.dynamics_gap else []),
        ]
        return metrics.take() | {
            "lr": self.lr,
            "gradient_steps": float(self.steps),
            "replay_size": float(len(self.replay)),
            "return_scale": self.scale.std,
            "skipped_steps": float(sum(optimizer.skipped for optimizer in optimizers)),
        }

    def _due(self, fresh: int) -> int:
        """Return the number of gradient steps for the new decisions; fractions carry over."""
        self.decisions += fresh
        if self.decisions < self.cfg.warmup_decisions:
            return 0
        self.pending_steps += self.cfg.utd_ratio * fresh
        due = math.floor(self.pending_steps)
        self.pending_steps -= due
        return due

    def _step(self) -> dict[str, Tensor]:
        batch = self._augmented(self.replay.sample(self.cfg.minibatch, self.generator))
        if self.cfg.scale_rewards:
            batch = batch._replace(rew=batch.rew / self.scale.std)
        found = self._fit_critic(batch._replace(act=batch.act_with_masked_tail(self.generator)))
        self.steps += 1
        if self.warmup_left:
            self.warmup_left -= 1
        elif self.steps % self.cfg.policy_delay == 0:
            with frozen_weights(self.critic.net):
                found |= self.actor.update(batch.obs, self._value)
        return found

    def _augmented(self, batch: Transitions) -> Transitions:
        """Change the images before and after a transition apart (2004.13649, section 3.1)."""
        obs, next_obs = (self.augment(each, self.generator) for each in (batch.obs, batch.next_obs))
        return batch._replace(obs=obs, next_obs=next_obs)

    def _fit_critic(self, batch: Transitions) -> dict[str, Tensor]:
        with torch.no_grad():
            act, cost = self.actor.next_action(batch.next_obs)
        loss, wanted = self.backup.loss(batch, act, cost)
        weights, found = self._weights(batch)
        loss = weights * loss
        self.q_learner.descend(loss.mean(dim=1).sum())
        losses = {"critic_loss": loss.detach().mean(dim=1).mean(), "value": wanted.mean()}
        return losses | found

    def _weights(self, batch: Transitions) -> tuple[Tensor, dict[str, Tensor]]:
        """Weights (B,) of the rows in the critic loss, and their metrics."""
        if self.dynamics_gap is None:
            return torch.ones_like(batch.rew), {}
        found, weights = self.dynamics_gap.step(batch), self.dynamics_gap.weights(batch)
        simulated = weights[~batch.demo]
        return weights, found | ({"simulated_weight": simulated.mean()} if len(simulated) else {})

    def _value(self, obs: dict[str, Tensor], act: Tensor) -> Tensor:
        """The value (B,) that the actor maximises."""
        return self.actor_aggregation(self.critic(obs, act), self.generator)

    def restart_episodes(self) -> None:
        """See ``Algorithm``: the running returns of the return scale."""
        self.scale.restart_episodes()

    def rollback(self, state: Mapping[str, Any]) -> None:
        """Restore an earlier ``actor_state`` at half the current learning rate; the replay stays.

        The critics and their return scale are restored as well, because the actor follows their
        gradient. The part of the critics' warm-up that followed the restored state is repeated.
        """
        lr = self.lr
        self.load_states_of(self.actor_parts, state)
        self.actor.optimizer.set_lr(0.5 * lr)


class _Means:
    """Means of metrics; a metric may be absent from some steps."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, list[Tensor]] = defaultdict(list)

    def add(self, found: Mapping[str, Tensor]) -> None:
        for name, value in found.items():
            self._seen[name].append(value)

    def take(self) -> dict[str, float]:
        return read({name: torch.stack(seen).mean() for name, seen in self._seen.items()})
