"""What a loop of reinforcement learning is asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from robo_rl.algo.base import Algorithm
from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import Component, component, default
from robo_rl.train.rl.collapse_guard import CollapseGuard
from robo_rl.train.rl.collector_factory import NumEnvs
from robo_rl.train.rl.exploration import ExplorationConfig
from robo_rl.train.rl.joint_distillation import JointDistillation
from robo_rl.train.rl.periodic_eval import PeriodicEval


class LoopConfig(ConfigModel):
    """Budget and batch.

    ``num_envs`` may be ``auto`` (``collecting.count_envs``). ``decisions`` are chunks per env and
    update; an algorithm that compares whole episodes takes one of these per env instead. With
    ``env_steps`` the run ends with the update that reaches them. With ``stop_success`` it ends
    early once that share of the training episodes (under exploration noise) of the latest updates
    succeeds, as few of these as have ``stop_episodes`` between them, or with ``stop_return`` once
    their mean return reaches it. ``exploration`` changes how the policy explores; what is evaluated
    stays the same. ``running_obs_stats`` renews the mean and deviation by which observations are
    normalised, for policies that began without demonstrations (see ``RunningObsStats``). ``periodic_eval``
    evaluates on the way, off the clock. ``student`` learns along, to do in one step what the policy
    does (see ``JointDistillation``). The envs are in ``shards`` equal parts with random streams of their
    own, of which every process of a run of several has as many; 0 is one a process.
    """

    num_envs: NumEnvs = 256
    """Envs that are stepped at once; ``auto`` is as many as fit the device."""
    shards: int = Field(default=0, ge=0)
    """Parts of the envs with random streams of their own; 0 is one a process."""
    decisions: int = Field(default=10, ge=1)
    """Decisions per env and update."""
    updates: int = Field(default=100, ge=1)
    """Updates of the algorithm."""
    env_steps: int | None = Field(default=None, ge=1)
    """Env steps after which training ends; null is no limit."""
    stop_success: float = Field(default=1.01, gt=0.0)
    """Training success at which training ends."""
    stop_return: float | None = None
    """Mean training return at which training ends; null never."""
    stop_episodes: int = Field(default=200, ge=1)
    """Latest episodes that the two thresholds look at."""
    checkpoint_every: int = Field(default=10, ge=1)
    """Updates between two checkpoints."""
    exploration: ExplorationConfig = ExplorationConfig()
    """How the policy explores, where that differs from its own settings."""
    running_obs_stats: bool = False
    """Whether the statistics that normalise observations go on being updated."""
    periodic_eval: PeriodicEval.Config = PeriodicEval.Config()
    """Evaluations during training."""
    student: JointDistillation.Config = JointDistillation.Config()
    """One-step student that learns along."""
    algo: Annotated[Component[Algorithm], component("algos")] = default("ppo")
    """Algorithm."""
    guard: CollapseGuard.Config = CollapseGuard.Config()
    """Collapse guard."""
