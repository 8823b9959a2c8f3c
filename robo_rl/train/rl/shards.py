"""Splits the envs of a run into shards, each with its own random streams.

The result of a run depends on its shards and not on its processes, except for losses that draw
noise in each process (``nft``, ``ratio: cfm``, ``regularization.bc_reference``). A process may hold
several shards. Shapes: T decisions, B envs of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from robo_rl.api.env import REW_PART
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import derive
from robo_rl.data.rollout import Rollout, join_rollouts
from robo_rl.distributed.process_group import all_gather_rows, all_reduce_sum, rank_info
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.gather_state import all_gather_state
from robo_rl.train.rl.collector import Collector
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.group_collector import GroupCollector

_MEANS = ("rew_per_step", "jerk")  # with the parts of the reward; all other metrics are counts


class ShardPlan(NamedTuple):
    """Number of shards of a run, and the shards of this process."""

    total: int
    local: range

    @classmethod
    def of(cls, wanted: int, kept: int | None, num_envs: int, *, single: bool = False) -> ShardPlan:
        """Plan an equal number of shards for each process.

        Args:
            wanted: Number of shards; 0 takes that of the checkpoint, or one per process.
            kept: Number of shards of the checkpoint; None without one. If it does not fit the
                processes, each process gets one shard and episodes start anew.
            num_envs: Number of envs over all shards.
            single: Whether a process can hold only one shard, because rollouts differ in length.

        Raises:
            ConfigError: The shards do not divide evenly over processes, or the envs over shards.
        """
        rank, size = rank_info()
        fits = kept and kept % size == 0 and not (single and kept != size)
        total = wanted or (kept if kept and fits else size)
        check_shards(total, size, num_envs)
        count = total // size
        return cls(total, range(rank * count, (rank + 1) * count))


def check_shards(total: int, processes: int, num_envs: int) -> None:
    """Check that shards divide evenly over processes, and envs over shards.

    Raises:
        ConfigError: They do not.
    """
    if total % processes or num_envs % total:
        raise ConfigError(
            "online.shards" if total % processes else "online.num_envs",
            expected=f"a multiple of {processes if total % processes else total}",
            found=total if total % processes else num_envs,
            hint=f"{total} parts of {num_envs} envs, over {processes} processes",
        )


class ShardedCollector:
    """A ``Collector`` of several shards, over all processes.

    Args:
        split: Shards of this process.
        make: Builds the collector of a shard from its index.

    Raises:
        ConfigError: Rollouts are whole episodes, and the process has more than one shard.
    """

    def __init__(self, split: ShardPlan, make: Callable[[int], Collector]) -> None:
        self.split = split
        self.parts = {index: make(index) for index in split.local}
        if len(self.parts) > 1 and isinstance(next(iter(self.parts.values())), GroupCollector):
            raise ConfigError(
                "online.shards: blocks of whole episodes differ in length",
                expected=f"{rank_info().world_size}, one a process",
                found=split.total,
            )
        self.env_steps = self.seed = self._before = 0
        self._all_anew = False

    def start(self, seed: int) -> None:
        """Start new episodes in all envs."""
        self.seed = seed
        for index, part in self.parts.items():
            part.start(derive("shard", seed, index))

    def collect(self, policy: DenoisingPolicy, decisions: int) -> tuple[Rollout, dict[str, float]]:
        """Collect T decisions in this process's envs; the metrics cover all processes."""
        before = [part.env_steps for part in self.parts.values()]
        found = [part.collect(policy, decisions) for part in self.parts.values()]
        done = [p.env_steps - was for p, was in zip(self.parts.values(), before, strict=True)]
        metrics = _pooled([stats for _, stats in found], done)
        here_now = sum(part.env_steps for part in self.parts.values())
        self.env_steps = self._before + int(all_reduce_sum(torch.tensor(here_now)))
        return concat_rollouts([rollout for rollout, _ in found], self.split.local), metrics

    def finish_block(self) -> EpisodeOutcomes:
        """End the block; return the outcomes of all processes, in the order of the shards."""
        each = [part.finish_block() for part in self.parts.values()]
        rows = torch.cat([torch.stack([c.double() for c in found], dim=1) for found in each])
        rows = all_gather_rows(rows)
        return EpisodeOutcomes(rows[:, 0] > 0, rows[:, 1])

    def discard_running(self) -> None:
        """Count only episodes that begin from now on."""
        for part in self.parts.values():
            part.discard_running()

    @property
    def restarted(self) -> bool:
        """See ``Collector``; shards resume or begin anew together."""
        return self._all_anew or any(part.restarted for part in self.parts.values())

    def close(self) -> None:
        """Close the envs."""
        for part in self.parts.values():
            part.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all shards; all processes call it together."""
        states = all_gather_state([part.state_dict() for part in self.parts.values()])
        return {"shards": states, "env_steps": self.env_steps, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue this process's shards; start new episodes if their number differs."""
        self.env_steps, self.seed = state["env_steps"], state["seed"]
        states = state.get("shards", ())
        self._all_anew = len(states) != self.split.total
        if self._all_anew:
            self._before = self.env_steps
            seed = derive("continue", self.seed, self.env_steps)
            for index, part in self.parts.items():  # seeds that no stream has used
                part.generator.manual_seed(derive("explore", seed, index))
            self.start(seed)
            return
        for index, part in self.parts.items():
            part.load_state_dict(states[index])
        self._before = self.env_steps - sum(each["env_steps"] for each in states)


def concat_rollouts(rollouts: Sequence[Rollout], parts: Sequence[int]) -> Rollout:
    """Concatenate rollouts of equal length along their envs.

    Args:
        rollouts: One per shard.
        parts: Index of each shard, for ``Rollout.shard``.
    """
    shard = [
        torch.full_like(rollout.valid, part, dtype=torch.int64)
        for rollout, part in zip(rollouts, parts, strict=True)
    ]
    return replace(join_rollouts(rollouts), shard=torch.cat(shard, dim=1))


def _pooled(stats: Sequence[dict[str, float]], steps: Sequence[int]) -> dict[str, float]:
    """Pool the metrics of shards; means are weighted by env steps, counts are summed."""
    names = list(stats[0])
    table = torch.tensor([[each[name] for name in names] for each in stats], dtype=torch.float64)
    weight = torch.tensor(steps, dtype=torch.float64)[:, None] * table.isfinite()
    sums = all_reduce_sum(torch.stack([(table.nan_to_num() * weight).sum(0), weight.sum(0)]))
    means = (sums[0] / sums[1]).tolist()
    counts = all_reduce_sum(table.nan_to_num().sum(0)).tolist()
    return {
        name: mean if name in _MEANS or name.startswith(REW_PART) else count
        for name, mean, count in zip(names, means, counts, strict=True)
    }
