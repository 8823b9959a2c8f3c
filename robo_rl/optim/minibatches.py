"""Shuffled minibatches of rows, over one process or several.

Shapes: n rows of this process, R of a minibatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from robo_rl.core.seeding import make_generator
from robo_rl.distributed.moments import global_count
from robo_rl.distributed.process_group import all_reduce_sum, broadcast_int


class Minibatch(NamedTuple):
    """This process's part of a minibatch.

    Args:
        indices: (R,) its rows.
        weight: Share of the minibatch; the shares of all processes sum to 1. The weighted sum of
            the processes' means is the mean over the minibatch.
    """

    indices: Tensor
    weight: float


PADDING_SHARD = -1
"""Shard index of a padded row, which has no weight."""


class Minibatches:
    """Iteration yields one epoch: every row once, in minibatches of nearly equal size.

    Each shard of a run (``Rollout.shard``) is shuffled with its own random stream and is split
    evenly over the minibatches. Results therefore do not depend on the process that holds a shard.

    Args:
        size: n, at least 1.
        limit: Largest number of rows of a minibatch over all processes; shards that do not divide
            evenly may add one row each.
        generator: Determines the order; with several processes, the one of the first process.
        shard: (n,) shard index of each row; None for a single shard.
    """

    def __init__(
        self, size: int, limit: int, generator: torch.Generator, shard: Tensor | None = None
    ) -> None:
        self._size, self._generator, self._parts = size, generator, dict[int, Tensor]()
        if shard is not None:
            known = [part for part in shard.unique().tolist() if part != PADDING_SHARD]
            self._parts = {part: (shard == part).nonzero().flatten() for part in known}
            size = sum(len(rows) for rows in self._parts.values())
        self._split = shard is not None
        self.per_epoch = -(-global_count(size) // limit)

    def __iter__(self) -> Iterator[Minibatch]:
        pieces = [order.tensor_split(self.per_epoch) for order in self._orders()]
        place = self._generator.device
        nothing = torch.zeros(0, dtype=torch.int64, device=place)
        picks = [torch.cat([nothing, *(each[i] for each in pieces)]) for i in range(self.per_epoch)]
        sizes = torch.tensor([len(pick) for pick in picks], dtype=torch.float64)
        totals = all_reduce_sum(sizes)
        any_row = torch.zeros(1, dtype=torch.int64, device=place)
        for pick, own, total in zip(picks, sizes.tolist(), totals.tolist(), strict=True):
            if total:
                yield Minibatch(pick if own else any_row, own / total)

    def epochs(self, number: int) -> Iterator[tuple[Minibatch, bool]]:
        """Yield minibatches of several epochs, and one more to measure the last step.

        Yields:
            A minibatch, and whether it belongs to an epoch.
        """
        for _ in range(number):
            yield from ((batch, True) for batch in self)
        yield next(iter(self)), False

    def _orders(self) -> list[Tensor]:
        if not self._split:
            there = self._generator.device
            return [torch.randperm(self._size, generator=self._generator, device=there)]
        there = self._generator.device
        seed = broadcast_int(int(torch.randint(2**62, (), generator=self._generator, device=there)))
        streams = {part: make_generator("minibatch", seed, part) for part in self._parts}
        return [
            rows[torch.randperm(len(rows), generator=streams[part]).to(rows.device)]
            for part, rows in self._parts.items()
        ]
