"""Builds the training envs and the collector of an online run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field

from robo_rl.algo.base import Algorithm
from robo_rl.core.errors import DeviceError
from robo_rl.core.memory import demand_memory
from robo_rl.core.seeding import make_generator
from robo_rl.distributed.process_group import all_reduce_min, rank_info
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.collector import Collector
from robo_rl.train.rl.group_collector import GroupCollector
from robo_rl.train.rl.process_reward import Potential, ProcessRewardEnv
from robo_rl.train.rl.shards import ShardedCollector, ShardPlan

NumEnvs = Annotated[int, Field(ge=1)] | Literal["auto"]

_UNLIMITED, _MOST = 256, 16384
_SMALLER_GROUPS = "lower num_envs, the length of an episode, or the size of the images"


def count_envs(
    context: Context, wanted: NumEnvs, kept: int | None, group_size: int = 1, shards: int = 0
) -> int:
    """Return the number of envs of a run.

    ``auto`` is the largest power of two that fits the memory of the simulator's device in every
    process, up to 16,384. It is 256 where memory is not limiting. Either is rounded down to whole
    groups, equally many in each shard and process, and each has at least one.

    Args:
        context: Context of the stage.
        wanted: A number, or ``auto``.
        kept: Number of envs of the checkpoint, which replaces ``auto``; None without a checkpoint.
        group_size: Envs that share a start state, and so a process.
        shards: Number of shards of the run; 0 is one per process.

    Raises:
        DeviceError: Not even one env of each shard, or one group of them, fits.
    """
    if wanted != "auto":
        return wanted
    if kept is not None:
        return kept
    fit = context.experiment.capacity()
    processes = rank_info().world_size
    unit = math.lcm(processes, shards or 1) * group_size
    if fit is None:
        return max(1, _UNLIMITED // unit) * unit
    fit = all_reduce_min(fit)
    if fit < (least := unit // processes):
        what = "env" if group_size == 1 else f"group of {group_size} envs"
        each = "" if processes == 1 else f" for each of {processes} processes"
        raise DeviceError(
            f"not one {what} of each shard fits the memory{each}",
            expected=f"room for {least} envs, {least // group_size} x {group_size}",
            found=fit,
            hint="lower shards, group_size, or contacts and constraints of env",
        )
    most = min(_MOST, 2 ** int(math.log2(fit)))
    return max(1, most // unit) * unit


def demand_rollout_memory(
    policy: DenoisingPolicy,
    decisions: int,
    reused: int = 0,
    hint: str = "lower num_envs or decisions, or the size of the images",
) -> None:
    """Check that the observations of rollouts fit the memory of the processor.

    Args:
        policy: Policy that acts.
        decisions: Decisions of all envs in a rollout.
        reused: Earlier rollouts that an update learns from too.
        hint: What makes them smaller.

    Raises:
        DeviceError: They do not.
    """
    if policy.device.type == "cpu":
        row = policy.obs_horizon * policy.env_spec.num_bytes
        copies = 4 * (1 + reused)  # before and after a decision, and a copy of either
        needed = copies * decisions * row
        demand_memory(needed, f"a rollout of {decisions:,} decisions", hint)


def make_collector(
    context: Context,
    policy: DenoisingPolicy,
    algo: Algorithm,
    num_envs: int,
    split: ShardPlan,
    *,
    sharded: bool = False,
    by_failures: bool = False,
    potential: Potential | None = None,
) -> Collector | ShardedCollector:
    """Build the collector for an algorithm.

    Args:
        context: Context of the stage.
        policy: Policy that acts.
        algo: Algorithm, with its ``group_size`` and ``single_step``.
        num_envs: Number of envs over all shards.
        split: Shards of the run.
        by_failures: Whether new episodes favour the tasks that fail.
        potential: Of the process reward; None without one.
        sharded: Whether the checkpoint has the state of a ``ShardedCollector``, even of one shard.

    Raises:
        ConfigError: The envs do not make whole groups, or the rollouts of several shards would
            differ in length.
        DeviceError: Rollouts of whole episodes do not fit the memory.
    """
    make = _maker(context, policy, algo, num_envs, split.total, by_failures, potential)
    if split.total == 1 and not sharded:
        return make(make_generator("explore", context.seed, device=policy.device))
    return ShardedCollector(
        split,
        lambda part: make(make_generator("explore", context.seed, part, device=policy.device)),
    )


def _maker(
    context: Context,
    policy: DenoisingPolicy,
    algo: Algorithm,
    num_envs: int,
    shards: int,
    by_failures: bool,
    potential: Potential | None,
) -> Callable[[torch.Generator], Collector]:
    make_chunks = partial(
        ChunkEnv if potential is None else partial(ProcessRewardEnv, potential=potential),
        obs_horizon=policy.obs_horizon,
        exec_horizon=policy.exec_horizon,
        gamma=context.experiment.gamma,
    )

    def make(generator: torch.Generator) -> Collector:
        env = make_chunks(context.experiment.make_env(num_envs // shards, policy.device))
        ways = {"single_step": algo.single_step, "by_failures": by_failures}
        if algo.group_size == 1:
            return Collector(env, generator, **ways)
        made = GroupCollector(env, generator, group_size=algo.group_size, **ways)
        try:
            decisions = num_envs * made.max_decisions
            demand_rollout_memory(policy, decisions, hint=_SMALLER_GROUPS)
        except DeviceError:
            made.close()
            raise
        return made

    return make
