"""Means and deviations of the rows that all processes hold together."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from robo_rl.distributed.process_group import all_reduce_sum, rank_info

_Number = TypeVar("_Number", float, Tensor)


class Moments(NamedTuple):
    """Of rows (n, …): how many, their mean (…), and the sum of their squared deviations (…)."""

    num: int
    mean: Tensor
    sq_dev: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Moments:
        """Over all processes; alone, of these rows as torch has them."""
        if rank_info().world_size == 1:
            average = rows.mean(dim=0)
            return cls(len(rows), average, (rows - average).square().sum(dim=0))
        count = global_count(len(rows))
        average = all_reduce_sum(rows.sum(dim=0)) / count
        return cls(count, average, all_reduce_sum((rows - average).square().sum(dim=0)))


def merged(
    one: tuple[float, _Number, _Number], other: tuple[float, _Number, _Number]
) -> tuple[float, _Number, _Number]:
    """Moments of two sets of rows together, from those of each: how many, mean, and ``sq_dev``.

    Source: Chan, Golub & LeVeque 1983, eq. 2.1.
    """
    (world_size, mean, sq_dev), (more, their_mean, their_sq_dev) = one, other
    gap, total = their_mean - mean, world_size + more
    between = gap**2 * world_size * more / total
    return total, mean + gap * more / total, sq_dev + (their_sq_dev + between)


def global_count(count: int) -> int:
    """How many rows all processes have together."""
    return int(all_reduce_sum(torch.tensor(count)))


def global_mean(rows: Tensor) -> Tensor:
    """The mean of rows (n,) of all processes."""
    return rows.mean() if rank_info().world_size == 1 else Moments.of(rows).mean


def global_std(rows: Tensor) -> Tensor:
    """Their standard deviation, with n − 1."""
    return rows.std() if rank_info().world_size == 1 else global_var(rows).sqrt()


def global_var(rows: Tensor) -> Tensor:
    """Their variance, with n − 1."""
    if rank_info().world_size == 1:
        return rows.var()
    count, _, sq_dev = Moments.of(rows)
    return sq_dev / (count - 1)
