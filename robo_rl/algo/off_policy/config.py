"""Settings that SAC and TD3 share: replay, critics and the update schedule."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from robo_rl.algo.off_policy.actor import OffPolicyActorConfig
from robo_rl.algo.off_policy.dynamics_reweighting import DynamicsGap
from robo_rl.critic.aggregate import EnsembleAggregation
from robo_rl.critic.q import QCritic
from robo_rl.data.images.image_augmentation import ImageAugmentation
from robo_rl.data.replay import Replay


class OffPolicyConfig(OffPolicyActorConfig):
    """Replay, critic and update schedule; ``OffPolicyActorConfig`` holds the actor's settings.

    Training starts after ``warmup_decisions``. ``utd_ratio`` is the number of critic steps per
    decision. The actor takes one step per ``policy_delay`` critic steps, after
    ``critic_warmup_steps``. The target network follows every critic step with decay ``target_ema``.

    ``target_aggregation`` reduces the ensemble to one value for a target: min (TD3, SAC),
    subset_min (REDQ) or mean − κ·std. ``actor_aggregation`` does so for the actor.
    ``scale_rewards`` divides rewards by the running std of the return, as PPO does. Coefficients,
    temperatures and ``critic.head.bounds`` are then in that unit.

    ``warm_start_critics`` starts from the critics of stage ``offline``. Together with
    ``warmup_decisions``, an empty replay buffer and no demonstrations this is WSRL (Zhou et al.
    2024, arXiv 2412.07762).

    ``dynamics_gap`` is for a simulated env with demonstrations of a real robot. The critics weigh
    simulated transitions by how likely they are in reality (see ``DynamicsGap``).
    """

    minibatch: int = Field(default=256, ge=1)
    """Transitions of a minibatch."""
    grad_clip: float = Field(default=10.0, gt=0.0)
    """Largest gradient norm of the critic."""
    critic_lr: float = Field(default=3e-4, gt=0.0)
    """Learning rate of the critic."""
    utd_ratio: float = Field(default=1.0, gt=0.0)
    """Critic steps per collected decision."""
    warmup_decisions: int = Field(default=1000, ge=0)
    """Decisions collected before training starts."""
    critic_warmup_steps: int = Field(default=0, ge=0)
    """Critic steps before the first actor step."""
    policy_delay: int = Field(default=1, ge=1)
    """Critic steps per actor step."""
    target_ema: float = Field(default=0.995, ge=0.0, lt=1.0)
    """Decay of the target network."""
    scale_rewards: bool = True
    """Whether rewards are divided by the running standard deviation of returns."""
    warm_start_critics: bool = False
    """Whether training starts from the critics of stage ``offline``."""
    critic: QCritic.Config = QCritic.Config(members=2)
    """Size and loss of the ensemble of Q networks."""
    target_aggregation: EnsembleAggregation.Config = EnsembleAggregation.Config()
    """How the ensemble is reduced to one value for a target."""
    actor_aggregation: EnsembleAggregation.Config = EnsembleAggregation.Config()
    """How the ensemble is reduced to one value for the actor."""
    replay: Replay.Config = Replay.Config()
    """Size of the replay buffer, and how it is sampled."""
    augmentation: ImageAugmentation.Config = ImageAugmentation.Config()
    """Random changes of images in minibatches."""
    dynamics_gap: DynamicsGap.Config | None = None
    """Weighting of simulated transitions against real demonstrations; null is off."""

    @model_validator(mode="after")
    def _what_is_inherited_is_of_rewards_as_they_are(self) -> Self:
        if self.warm_start_critics and self.scale_rewards:
            raise ValueError(
                "warm_start_critics: values that were learnt offline are of rewards as they are;"
                " set scale_rewards to false"
            )
        return self

    @model_validator(mode="after")
    def _critics_can_be_reduced(self) -> Self:
        laws = self.critic.head.kind == "categorical"
        for name, learns_laws in (("target_aggregation", laws), ("actor_aggregation", False)):
            rule: EnsembleAggregation.Config = getattr(self, name)
            try:
                rule.check_critic(self.critic.members, learns_laws=learns_laws)
            except ValueError as error:
                raise ValueError(f"{name}.{error}") from error
        return self

    @model_validator(mode="after")
    def _what_is_simulated_is_told_from_what_is_real(self) -> Self:
        if self.dynamics_gap is None:
            return self
        if not 0 < round(self.minibatch * self.replay.demo_fraction) < self.minibatch:
            raise ValueError(
                f"dynamics_gap: with replay.demo_fraction {self.replay.demo_fraction:g} a minibatch"
                " is not of both kinds, demonstrations, which are real, and simulated experience;"
                " set it between 0 and 1"
            )
        if self.replay.n_step > 1:
            raise ValueError(
                f"dynamics_gap: replay.n_step {self.replay.n_step} leads through several"
                " transitions, and what is compared is one; set n_step to 1"
            )
        return self
