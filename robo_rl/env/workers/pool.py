"""Processes that step the envs: spoken to all at once, and replaced when they die or hang.

Shapes: B envs of all workers. No late answer is ever taken for a new one: every command has a
number that its answer repeats, and a worker that was lost is never listened to again; its successor
has a connection and memory of its own.
"""

from __future__ import annotations

import os
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from robo_rl.core.errors import PluginError, RoboRlError
from robo_rl.env.serve.shared_arrays import Arrays

if TYPE_CHECKING:
    from torch import Tensor

_MAX_DEATHS_IN_A_ROW = 3
_CLOSE_GRACE_S = 2.0
_STEPPING = ("step", "rollout")


@dataclass(frozen=True)
class WorkerLoss:
    """In place of an answer: the worker died or hung, and why we think so."""

    reason: str


class WorkerLostError(PluginError):
    """A worker died or hung before its envs were made.

    Args:
        problem: See ``RoboRlError``, as for ``details``.
        reason: Why we think so.
        details: See ``problem``.
    """

    def __init__(self, problem: str, *, reason: str = "", **details: Any) -> None:
        super().__init__(problem, **details)
        self.reason = reason


class Terminable(Protocol):
    """A process that can be ended."""

    def close(self) -> None:
        """Tell it to end, without waiting for it; calling it twice is harmless."""
        ...

    def terminate(self, deadline: float) -> None:
        """See that one that was told to end does so: until the deadline by itself, or else killed.

        Nothing where that is the business of somebody else.
        """
        ...


class Worker(Terminable, Protocol):
    """One process with some of the envs, and our end of the connection to it.

    Attributes:
        pid: Of the process.
        world: What it says of its envs; all workers of a pool must say the same.
        arrays: What it shares with us, name → array; ``seq`` (1,) is the number of the command that
            wrote all others.
    """

    pid: int
    world: Any
    arrays: Arrays

    def join(self) -> None:
        """Wait until its envs are made; until then others can be making theirs.

        Raises:
            WorkerLostError: It died or takes too long.
            RoboRlError: It cannot make them.
        """
        ...

    def send(self, kind: str, seq: int, **arguments: Any) -> None:
        """Give a command; a worker that is gone is noticed when its answer is awaited."""
        ...

    def receive(self, seq: int, sent_at: float) -> RoboRlError | WorkerLoss | None:
        """Wait for the answer to a command.

        Args:
            seq: Of the command.
            sent_at: When it was given, by the monotonic clock; from then on patience counts.
        """
        ...


_Worker = TypeVar("_Worker", bound=Worker)


class WorkerPool(ABC, Generic[_Worker]):
    """B envs in some workers.

    Args:
        where: What errors call the env.
        num_envs: B.
        num_workers: At most B.
        spawn: Starts the worker of these envs, without waiting until they are made.
        finish: Called last, when the pool is closed; it must not hold the pool.

    Attributes:
        ids: The envs of each worker.
        world: What the workers say of their envs.

    Raises:
        RoboRlError: A worker does not start, or cannot make its envs, or they are not like others.
    """

    ends_a_restart: ClassVar[type[RoboRlError]] = RoboRlError
    """What closes the pool where a worker is replaced; after others a reset may try again."""

    def __init__(
        self,
        where: str,
        num_envs: int,
        num_workers: int,
        spawn: Callable[[range], _Worker],
        finish: Callable[[], object] = lambda: None,
    ) -> None:
        self.where, self._spawn = where, spawn
        self.ids = [
            range(num_envs * w // num_workers, num_envs * (w + 1) // num_workers)
            for w in range(num_workers)
        ]
        self.world: Any = None
        self._seq, self._deaths = 0, [0] * num_workers
        self._workers: list[_Worker] = []
        self._close = weakref.finalize(self, shut_down, os.getpid(), self._workers, finish)
        try:
            for ids in self.ids:
                self._workers.append(spawn(ids))
            for worker in self._workers:
                self._join(worker)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called, by the user or after a failure that ended the pool."""
        return not self._close.alive

    @property
    def pids(self) -> list[int]:
        """Process id of each worker."""
        return [worker.pid for worker in self._workers]

    def rows(self, workers: Iterable[int]) -> list[int]:
        """The envs of some workers."""
        return [i for worker in workers for i in self.ids[worker]]

    def array(self, name: str) -> Tensor:
        """A copy of one array of all workers, (B, …)."""
        import torch

        return torch.from_numpy(np.concatenate([w.arrays[name] for w in self._workers]))

    def read(self, kind: str) -> dict[str, Tensor]:
        """Copies of the arrays ``kind.<name>`` of all workers, name → (B, …)."""
        prefix = f"{kind}."
        names = [name for name in self._workers[0].arrays if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.array(name) for name in names}

    def reset(self, workers: Iterable[int], seeds: Sequence[int] | None) -> dict[int, WorkerLoss]:
        """Begin new episodes in the envs of some workers; see ``command``.

        Args:
            workers: Which.
            seeds: One for each of the B envs; None to go on with the streams that they have.
        """
        each = {w: seeds and list(seeds[self.ids[w].start : self.ids[w].stop]) for w in workers}
        return self._exchange("reset", {w: {"seeds": own} for w, own in each.items()})

    def command(self, kind: str, **arguments: Any) -> dict[int, WorkerLoss]:
        """Give all workers a command and wait for all of them.

        Returns:
            Those that were lost, which ``replace`` must replace; their arrays hold nothing of use.

        Raises:
            RoboRlError: An env went wrong; the worker lives on and its envs need a reset.
        """
        return self._exchange(kind, dict.fromkeys(range(len(self.ids)), arguments))

    def replace(self, lost: Mapping[int, WorkerLoss]) -> None:
        """End what is left of lost workers and start their envs anew; they need a reset.

        Raises:
            PluginError: A worker was lost too often in a row; the pool is closed.
        """
        pending = dict(lost)
        while pending:
            for worker, loss in pending.items():
                self._count_death(worker, loss)
                self._workers[worker].close()
                self._workers[worker].terminate(time.monotonic())
            pending = self._renew(pending)

    def close(self) -> None:
        """End the workers; calling it twice is harmless."""
        self._close()

    @abstractmethod
    def _unlike(self) -> RoboRlError:
        """The error when workers of the same arguments say different things of their envs."""

    @abstractmethod
    def _given_up(self, worker: int, times: int, loss: WorkerLoss) -> RoboRlError:
        """The error when a worker was lost that often in a row."""

    def _exchange(
        self, kind: str, arguments: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, WorkerLoss]:
        """Give each worker a command with its arguments; see ``command``."""
        self._seq += 1
        for worker, own in arguments.items():
            self._workers[worker].send(kind, self._seq, **own)
        sent_at = time.monotonic()
        answers = {w: self._hear(self._workers[w], sent_at) for w in arguments}
        for worker, answer in answers.items():
            if isinstance(answer, RoboRlError):
                raise answer
            if answer is None and kind in _STEPPING:
                self._deaths[worker] = 0  # not by a reset, which follows each death
        return {w: answer for w, answer in answers.items() if isinstance(answer, WorkerLoss)}

    def _hear(self, worker: _Worker, sent_at: float) -> RoboRlError | WorkerLoss | None:
        answer = worker.receive(self._seq, sent_at)
        if answer is None and worker.arrays.get("seq", [0])[0] != self._seq:
            return WorkerLoss("it answered and had not written its arrays")
        return answer

    def _renew(self, workers: Iterable[int]) -> dict[int, WorkerLoss]:
        """Start workers anew; returns those that were lost again before their envs were made."""
        again: dict[int, WorkerLoss] = {}
        started = list[int]()
        for worker in workers:  # all of them first, for a simulator may take long to import
            with self._losing(worker, again):
                self._workers[worker] = self._spawn(self.ids[worker])
                started.append(worker)
        for worker in started:
            with self._losing(worker, again):
                self._join(self._workers[worker])
        return again

    @contextmanager
    def _losing(self, worker: int, lost: dict[int, WorkerLoss]) -> Generator[None]:
        """Note a worker that is lost within it."""
        try:
            yield
        except WorkerLostError as error:
            lost[worker] = WorkerLoss(error.reason)
        except self.ends_a_restart:
            self.close()
            raise

    def _join(self, worker: _Worker) -> None:
        worker.join()
        self.world = self.world or worker.world
        if worker.world != self.world:
            raise self._unlike()

    def _count_death(self, worker: int, loss: WorkerLoss) -> None:
        self._deaths[worker] += 1
        if self._deaths[worker] > _MAX_DEATHS_IN_A_ROW:
            error = self._given_up(worker, self._deaths[worker], loss)
            self.close()
            raise error


def shut_down(
    owner: int, workers: Sequence[Terminable], finish: Callable[[], object] = lambda: None
) -> None:
    """Tell processes to end, and see that they do.

    Args:
        owner: Process that they are of.
        workers: Them.
        finish: Called last.
    """
    if os.getpid() != owner:
        return  # a forked child has no business with our workers
    for worker in workers:
        worker.close()
    deadline = time.monotonic() + _CLOSE_GRACE_S
    for worker in workers:
        worker.terminate(deadline)
    finish()
