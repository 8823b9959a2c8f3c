"""A run's envs in parts, each with random streams of its own, whichever process steps them.

What a run of several parts comes to follows from the parts and not from the processes that have
them: they may be as many, or fewer, each with several. Shapes: T decisions, B envs of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from robo_rl.api.env import REW_PART
from robo_rl.core.errors import ConfigError
from robo_rl.core.seeding import derive
from robo_rl.data.rollout import Rollout
from robo_rl.distributed.process_group import all_gather_rows, all_reduce_sum, rank_info
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.gather_state import all_gather_state
from robo_rl.train.rl.collector import Collector
from robo_rl.train.rl.episode_cohorts import EpisodeOutcomes
from robo_rl.train.rl.group_collector import GroupCollector

_MEANS = ("rew_per_step", "jerk")  # with the parts of the reward; all other metrics are counts
_ALONG_ENVS = ("last_obs", "final_obs", "ended", "initial_noise")  # all else starts with (T, B)


class ShardPlan(NamedTuple):
    """How many parts a run has, and which of them this process has."""

    total: int
    local: range

    @classmethod
    def of(cls, wanted: int, kept: int | None, num_envs: int, *, single: bool = False) -> ShardPlan:
        """An equal number of parts for each process.

        Args:
            wanted: How many are asked for; 0 for those of the checkpoint, or one a process.
            kept: How many a checkpoint has; None without one. Where they do not come out even, as
                many as there are processes take their place, and episodes begin anew.
            num_envs: Envs of all parts together.
            single: Whether a process can have but one, since blocks of parts differ in length.

        Raises:
            ConfigError: They do not come out even.
        """
        rank, size = rank_info()
        fits = kept and kept % size == 0 and not (single and kept != size)
        total = wanted or (kept if kept and fits else size)
        if total % size or num_envs % total:
            raise ConfigError(
                "online.shards" if total % size else "online.num_envs",
                expected=f"a multiple of {size if total % size else total}",
                found=total if total % size else num_envs,
                hint=f"{total} parts of {num_envs} envs, over {size} processes",
            )
        count = total // size
        return cls(total, range(rank * count, (rank + 1) * count))


class ShardedCollector:
    """Does for several parts, over all processes, what a ``Collector`` does for one.

    Args:
        split: Which parts are this process'.
        make: A part's collector, of its index.

    Raises:
        ConfigError: Blocks are of whole episodes, and the process has more than one part.
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

    def start(self, seed: int) -> None:
        """Begin new episodes everywhere."""
        self.seed = seed
        for index, part in self.parts.items():
            part.start(derive("shard", seed, index))

    def collect(self, policy: DenoisingPolicy, decisions: int) -> tuple[Rollout, dict[str, float]]:
        """T decisions in every env of this process, and the metrics of all; see ``Collector``."""
        before = [part.env_steps for part in self.parts.values()]
        found = [part.collect(policy, decisions) for part in self.parts.values()]
        done = [p.env_steps - was for p, was in zip(self.parts.values(), before, strict=True)]
        metrics = _pooled([stats for _, stats in found], done)
        here_now = sum(part.env_steps for part in self.parts.values())
        self.env_steps = self._before + int(all_reduce_sum(torch.tensor(here_now)))
        return concat_rollouts([rollout for rollout, _ in found], self.split.local), metrics

    def finish_block(self) -> EpisodeOutcomes:
        """End the block; the outcomes of all processes, in the order of the parts."""
        each = [part.finish_block() for part in self.parts.values()]
        rows = torch.cat([torch.stack([c.double() for c in found], dim=1) for found in each])
        rows = all_gather_rows(rows)
        return EpisodeOutcomes(rows[:, 0] > 0, rows[:, 1])

    def discard_running(self) -> None:
        """Count only episodes that begin from now on."""
        for part in self.parts.values():
            part.discard_running()

    def close(self) -> None:
        """Close the envs."""
        for part in self.parts.values():
            part.close()

    def state_dict(self) -> dict[str, Any]:
        """Of all parts, for checkpoints; to be asked for by all processes at once."""
        states = all_gather_state([part.state_dict() for part in self.parts.values()])
        return {"shards": states, "env_steps": self.env_steps, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the parts that it has, or with new episodes where they are others."""
        self.env_steps, self.seed = state["env_steps"], state["seed"]
        states = state.get("shards", ())
        if len(states) != self.split.total:
            self._before = self.env_steps
            seed = derive("continue", self.seed, self.env_steps)
            for index, part in self.parts.items():  # noise that nobody has drawn before
                part.generator.manual_seed(derive("explore", seed, index))
            self.start(seed)
            return
        for index, part in self.parts.items():
            part.load_state_dict(states[index])
        self._before = self.env_steps - sum(each["env_steps"] for each in states)


def concat_rollouts(rollouts: Sequence[Rollout], parts: Sequence[int]) -> Rollout:
    """Blocks of as many decisions as one block, their envs behind each other.

    Args:
        rollouts: One a part.
        parts: What ``Rollout.shard`` is to call them.
    """
    sizes = [rollout.valid.shape[1] for rollout in rollouts]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    ended = [
        rollout.ended + torch.tensor([0, start])
        for rollout, start in zip(rollouts, starts, strict=True)
    ]
    shard = [
        torch.full_like(rollout.valid, part, dtype=torch.int64)
        for rollout, part in zip(rollouts, parts, strict=True)
    ]
    columns: dict[str, Any] = {
        field.name: _joined(
            [getattr(r, field.name) for r in rollouts], dim=int(field.name not in _ALONG_ENVS)
        )
        for field in fields(Rollout)
    }
    columns |= {"ended": torch.cat(ended), "shard": torch.cat(shard, dim=1)}
    return Rollout(**columns)


def _joined(values: Sequence[Any], dim: int) -> Any:
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(list(values), dim=dim)
    if isinstance(first, dict):
        return {name: _joined([value[name] for value in values], dim) for name in first}
    return None


def _pooled(stats: Sequence[dict[str, float]], steps: Sequence[int]) -> dict[str, float]:
    """Metrics of parts as those of the whole, in which each weighs as much as it has stepped."""
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
