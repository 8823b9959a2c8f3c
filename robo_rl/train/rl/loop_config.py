"""Configuration of the online RL loop."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from robo_rl.algo.base import Algorithm
from robo_rl.algo.on_policy import OnPolicy
from robo_rl.config.component import Component, component, default
from robo_rl.train.rl.collector_factory import NumEnvs
from robo_rl.train.rl.exploration.exploring_policy import ExplorationConfig
from robo_rl.train.rl.guard.collapse_guard import CollapseGuard
from robo_rl.train.rl.joint_distillation import JointDistillation
from robo_rl.train.rl.periodic_eval import PeriodicEval
from robo_rl.train.rl.process_reward import ProcessReward
from robo_rl.train.rl.task_sampler import TaskSampling


class LoopConfig(TaskSampling):
    """Budget, batch and parts of the online RL loop.

    ``num_envs`` may be ``auto`` (see ``collector_factory.count_envs``). ``decisions`` are chunks
    per env and update; a group-relative algorithm collects one episode per env instead. With
    ``env_steps`` the run ends with the update that reaches them.

    ``stop_success`` and ``stop_return`` end the run early. They compare the training episodes,
    which include exploration noise, of the fewest latest updates with ``stop_episodes`` episodes in
    total. ``stop_confirm`` episodes without exploration must reach the threshold too; else training
    goes on for ten updates before they are evaluated again. Times of updates exclude them.

    ``process_reward`` adds that of a success classifier, for on-policy algorithms: stored rewards,
    such as those of demonstrations, lack it.

    ``task_sampling`` draws the tasks of an env of several tasks (see ``TaskSampler``).

    ``exploration`` changes how the policy explores; the evaluated policy stays the same.
    ``running_obs_stats`` updates the normalisation of observations, for policies without
    demonstrations (see ``RunningObsStats``). ``periodic_eval`` evaluates during training and its
    time does not count. ``student`` trains a one-step student (see ``JointDistillation``).

    The envs are split into ``shards`` equal parts with their own random streams. Each process has
    the same number of shards; 0 is one per process.
    """

    omitted: ClassVar[tuple[str, ...]] = ("process_reward",)
    without_effect: ClassVar[tuple[str, ...]] = ("checkpoint_every",)

    num_envs: NumEnvs = 256
    """Envs that are stepped at once; ``auto`` is as many as fit the device."""
    shards: int = Field(default=0, ge=0)
    """Parts of the envs with their own random streams; 0 is one per process."""
    decisions: int = Field(default=10, ge=1)
    """Decisions per env and update."""
    updates: int = Field(default=100, ge=1)
    """Updates of the algorithm."""
    env_steps: int | None = Field(default=None, ge=1)
    """Env steps after which training ends; null is no limit."""
    stop_success: float = Field(default=1.01, gt=0.0)
    """Training success rate at which training ends."""
    stop_return: float | None = None
    """Mean training return at which training ends; null never."""
    stop_episodes: int = Field(default=200, ge=1)
    """Number of latest episodes that ``stop_success`` and ``stop_return`` average over."""
    stop_confirm: int = Field(default=100, ge=0)
    """Episodes without exploration that confirm ``stop_success`` or ``stop_return``; 0 for none."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Updates between two checkpoints."""
    exploration: ExplorationConfig = ExplorationConfig()
    """Exploration settings that differ from the policy's own."""
    process_reward: ProcessReward = ProcessReward()
    """Reward for the way to success, as a classifier sees it."""
    running_obs_stats: bool = False
    """Whether the normalisation statistics of observations are updated during training."""
    periodic_eval: PeriodicEval.Config = PeriodicEval.Config()
    """Evaluations during training."""
    student: JointDistillation.Config = JointDistillation.Config()
    """One-step student that is distilled during training."""
    algo: Annotated[Component[Algorithm], component("algos")] = default("ppo")
    """Online RL algorithm."""
    guard: CollapseGuard.Config = CollapseGuard.Config()
    """Collapse guard."""

    @model_validator(mode="after")
    def _rewards_are_of_one_kind(self) -> Self:
        if self.process_reward.weight and not issubclass(self.algo.cls, OnPolicy):
            raise ValueError(
                f"process_reward: algorithm '{self.algo.name}' also learns from stored rewards;"
                " set its weight to 0, or take algorithm ppo or nft"
            )
        if self.process_reward.weight and not getattr(self.algo.cfg, "has_critic", False):
            raise ValueError(
                "process_reward: a potential needs a critic where episodes are cut;"
                " set algo.advantage to gae and algo.group_size to 1"
            )
        return self
