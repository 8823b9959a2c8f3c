"""The envs that a policy learns in, and what collects from them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from robo_rl.algo.base import Algorithm, LearnsFromGroups
from robo_rl.env.chunk import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.seeding import make_generator
from robo_rl.train.groups import GroupCollector
from robo_rl.train.rollouts import Collector
from robo_rl.train.shards import Shards, Split
from robo_rl.train.stage import Context


def make_collector(
    context: Context, policy: DenoisingPolicy, algo: Algorithm, num_envs: int, split: Split
) -> Collector | Shards:
    """What collects blocks for an algorithm.

    Args:
        context: Of the stage.
        policy: Its chunks are what is executed.
        algo: Says what blocks it wants.
        num_envs: Of all parts together.
        split: The parts of the run.

    Raises:
        ConfigError: The envs do not make whole groups, or blocks of several parts would differ.
    """
    make = _maker(context, policy, algo, num_envs // split.total)
    if split.total == 1:
        return make(make_generator("explore", context.seed))
    return Shards(split, lambda part: make(make_generator("explore", context.seed, part)))


def _maker(
    context: Context, policy: DenoisingPolicy, algo: Algorithm, num_envs: int
) -> Callable[[torch.Generator], Collector]:
    def make(generator: torch.Generator) -> Collector:
        env = ChunkEnv(
            context.experiment.make_env(num_envs),
            obs_horizon=policy.obs_horizon,
            exec_horizon=policy.exec_horizon,
            gamma=context.experiment.gamma,
        )
        if isinstance(algo, LearnsFromGroups) and algo.group_size > 1:
            size = algo.group_size
            return GroupCollector(env, generator, one_step=algo.one_step, group_size=size)
        return Collector(env, generator, one_step=algo.one_step)

    return make
