"""Means and deviations of rows over all processes."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from robo_rl.distributed.process_group import all_reduce_sum, rank_info

_Number = TypeVar("_Number", float, Tensor)


class Moments(NamedTuple):
    """Moments of rows (n, …): count, mean (…), and sum of squared deviations (…)."""

    num: int
    mean: Tensor
    sq_dev: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Moments:
        """Return the moments of rows (n, …) over all processes."""
        if rank_info().world_size == 1:
            average = rows.mean(dim=0)
            return cls(len(rows), average, (rows - average).square().sum(dim=0))
        count = global_count(len(rows))
        average = all_reduce_sum(rows.sum(dim=0)) / count
        return cls(count, average, all_reduce_sum((rows - average).square().sum(dim=0)))


def merged(
    one: tuple[float, _Number, _Number], other: tuple[float, _Number, _Number]
) -> tuple[float, _Number, _Number]:
    """Combine the moments (count, mean, ``sq_dev``) of two sets of rows.

    Source: Chan, Golub & LeVeque 1983, eq. 2.1.
    """
    (count, mean, sq_dev), (more, their_mean, their_sq_dev) = one, other
    gap, total = their_mean - mean, count + more
    between = gap**2 * count * more / total
    return total, mean + gap * more / total, sq_dev + (their_sq_dev + between)


def global_count(count: int) -> int:
    """Return the number of rows of all processes."""
    return int(all_reduce_sum(torch.tensor(count)))


def global_mean(rows: Tensor) -> Tensor:
    """Return the mean of rows (n,) of all processes."""
    return rows.mean() if rank_info().world_size == 1 else Moments.of(rows).mean


def global_std(rows: Tensor) -> Tensor:
    """Return the standard deviation of rows (n,) of all processes, with divisor n − 1."""
    return rows.std() if rank_info().world_size == 1 else global_var(rows).sqrt()


def global_var(rows: Tensor) -> Tensor:
    """Return the variance of rows (n,) of all processes, with divisor n − 1."""
    if rank_info().world_size == 1:
        return rows.var()
    count, _, sq_dev = Moments.of(rows)
    return sq_dev / (count - 1)
