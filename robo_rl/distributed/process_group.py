"""Process group of the processes that train one policy together.

A process is alone unless ``joined_processes`` is active. Alone, every collective operation returns
its input unchanged. All processes must reach collective operations in the same order. Work of only
some processes runs inside ``single_process``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from robo_rl.core.errors import ConfigError, LostProcessError, ParallelError

STORE = "ROBO_RL_STORE"
"""Environment variable: the rendezvous file of ``train.launch``; without it as for torchrun."""

LAUNCHER = "ROBO_RL_LAUNCHER"
"""Environment variable: set if a launcher reports why a process ended.

Processes that end because another one ended then print no error.
"""

TIMEOUT = timedelta(days=2)
"""How long a process waits for the others.

Closed sockets reveal a process that died. Only this timeout reveals a machine that vanished.
"""


class RankInfo(NamedTuple):
    """Rank of this process, and number of processes."""

    rank: int
    world_size: int


_ALONE = RankInfo(0, 1)
_now = [_ALONE]


def rank_info() -> RankInfo:
    """Return the rank of this process in the active process group."""
    return _now[-1]


def launched_rank_info() -> RankInfo:
    """Return the rank of this process by the environment variables of ``torchrun``.

    Raises:
        ConfigError: The environment variables are inconsistent.
    """
    rank, size = os.environ.get("RANK", "0"), os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        expected = "0 ≤ RANK < WORLD_SIZE"
        raise ConfigError("environment", expected=expected, found=f"RANK={rank} of {size}")
    if int(size) > 1 and STORE not in os.environ and "MASTER_ADDR" not in os.environ:
        hint = "start the processes by torchrun, or by launch.processes=N"
        raise ConfigError("environment: WORLD_SIZE without MASTER_ADDR", hint=hint)
    return RankInfo(int(rank), int(size))


@contextmanager
def joined_processes() -> Generator[RankInfo]:
    """Join the launched processes inside the context.

    Raises:
        LostProcessError: The processes do not find each other.
    """
    ranks = launched_rank_info()
    if ranks.world_size == 1:
        yield ranks
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    method = f"file://{os.environ[STORE]}" if STORE in os.environ else "env://"
    with _meeting("the processes of this run do not find each other"):
        dist.init_process_group(
            backend, method, timeout=TIMEOUT, rank=ranks.rank, world_size=ranks.world_size
        )
    try:
        with _as(ranks):
            yield ranks
    finally:
        dist.destroy_process_group()


@contextmanager
def single_process() -> Generator[None]:
    """Run as a single process inside the context."""
    with _as(_ALONE):
        yield


def all_reduce_sum(tensor: Tensor) -> Tensor:
    """Return the sum of tensors of one shape over all processes."""
    return tensor if rank_info().world_size == 1 else _reduced(tensor, dist.ReduceOp.SUM)


def all_reduce_min(number: int) -> int:
    """Return the minimum of a number over all processes."""
    if rank_info().world_size == 1:
        return number
    return int(_reduced(torch.tensor(number), dist.ReduceOp.MIN))


def all_gather_rows(rows: Tensor) -> Tensor:
    """Concatenate the rows (n, …) of all processes in rank order; n may differ."""
    if rank_info().world_size == 1:
        return rows
    sizes = [torch.zeros((), dtype=torch.int64) for _ in range(rank_info().world_size)]
    _gather(sizes, torch.tensor(len(rows)))
    padded = rows.new_zeros(max(int(size) for size in sizes), *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    _gather(parts, padded)
    return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)])


def local_rows(rows: Tensor) -> Tensor:
    """Return this process's equal part of rows (N, …), in rank order."""
    rank, size = rank_info()
    count = len(rows) // size
    return rows[rank * count : (rank + 1) * count]


def broadcast_int(word: int) -> int:
    """Return the 64-bit number of the first process."""
    if rank_info().world_size == 1:
        return word
    heard = torch.tensor(word)
    with _meeting():
        dist.broadcast(heard, src=0)
    return int(heard)


def sum_gradients(params: list[torch.nn.Parameter]) -> None:
    """Replace each gradient by its sum over all processes, in one exchange."""
    grads = [param.grad for param in params if param.grad is not None]
    if rank_info().world_size == 1 or not grads:
        return
    total = _reduced(torch.cat([grad.flatten() for grad in grads]), dist.ReduceOp.SUM)
    for grad, part in zip(grads, total.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(part.view_as(grad))


def check_identical(tensors: list[Tensor]) -> None:
    """Check that all processes hold the same numbers, to the bit.

    Raises:
        ParallelError: They do not.
    """
    if rank_info().world_size == 1:
        return
    marks = all_gather_rows(torch.tensor([[_digest(tensor) for tensor in tensors]]))
    if not bool((marks == marks[:1]).all()):
        raise ParallelError(
            "the processes have come to different weights",
            hint="are their machines and versions alike? go back to the last checkpoint",
        )


def _digest(tensor: Tensor) -> int:
    """Return a 64-bit digest of the bytes; a sum depends on the number of threads."""
    data = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little", signed=True)


@contextmanager
def _as(ranks: RankInfo) -> Generator[None]:
    _now.append(ranks)
    try:
        yield
    finally:
        _now.pop()


def _gather(parts: list[Tensor], own: Tensor) -> None:
    with _meeting():
        dist.all_gather(parts, own)


def _reduced(tensor: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
    total = tensor.clone()
    with _meeting():
        dist.all_reduce(total, how)
    return total


@contextmanager
def _meeting(where: str = "another process of this run has ended") -> Generator[None]:
    """Convert errors of the transport to ``LostProcessError``."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        lines = str(error).strip().splitlines()
        ends = dict.fromkeys([*lines[:1], *lines[-1:]])  # NCCL names the cause on the last line
        found = " … ".join(line[:200] for line in ends) or None
        hint = "the same command resumes where it stopped"
        raise LostProcessError(where, found=found, hint=hint) from error
