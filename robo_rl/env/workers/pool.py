"""A pool of processes that step envs; processes that die or hang are replaced.

Shapes: B envs of all workers. A late answer is never mistaken for a new one: every command has a
number that its answer repeats. A lost worker is never read again; its replacement has its own
connection and memory.
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
from robo_rl.env.workers.awake_watch import AwakeWatch

if TYPE_CHECKING:
    from torch import Tensor

_MAX_DEATHS_IN_A_ROW = 3
_CLOSE_GRACE_S = 2.0
_STEPPING = ("step", "rollout")


@dataclass(frozen=True)
class WorkerLoss:
    """Stands for an answer: the worker died or hung, with the reason."""

    reason: str


class WorkerLostError(PluginError):
    """A worker died or hung before its envs were made.

    Args:
        problem: See ``RoboRlError``.
        reason: Why the worker counts as lost.
        details: See ``RoboRlError``.
    """

    def __init__(self, problem: str, *, reason: str = "", **details: Any) -> None:
        super().__init__(problem, **details)
        self.reason = reason


class Terminable(Protocol):
    """A process that can be ended."""

    def close(self) -> None:
        """Request its end without waiting; a second call does nothing."""
        ...

    def terminate(self, deadline: float) -> None:
        """Wait for its end until the deadline, then kill it.

        This does nothing where another process does so.
        """
        ...


class Worker(Terminable, Protocol):
    """One process with some of the envs, and the parent's end of the connection.

    Attributes:
        pid: Process id.
        world: Description of its envs; equal for all workers of a pool.
        arrays: Shared arrays, name → array; ``seq`` (1,) is the number of the command that
            wrote all others.
    """

    pid: int
    world: Any
    arrays: Arrays

    def join(self, watch: AwakeWatch) -> None:
        """Wait until its envs are made; other workers make theirs concurrently.

        Args:
            watch: Started with the workers; time limits count from there.

        Raises:
            WorkerLostError: The worker died or takes too long.
            RoboRlError: The worker cannot make its envs.
        """
        ...

    def send(self, kind: str, seq: int, **arguments: Any) -> None:
        """Send a command; a dead worker is detected when its answer is awaited."""
        ...

    def receive(self, seq: int, watch: AwakeWatch) -> RoboRlError | WorkerLoss | None:
        """Wait for the answer to a command.

        Args:
            seq: Number of the command.
            watch: Started when the command was sent; time limits count from there.
        """
        ...


_Worker = TypeVar("_Worker", bound=Worker)


class WorkerPool(ABC, Generic[_Worker]):
    """B envs in some workers.

    Args:
        where: Name of the env in errors.
        num_envs: B.
        num_workers: At most B.
        spawn: Starts the worker of these envs, without waiting until they are made.
        finish: Called last, when the pool is closed; it must not reference the pool.

    Attributes:
        ids: The envs of each worker.
        world: Description of the workers' envs.

    Raises:
        RoboRlError: A worker does not start, cannot make its envs, or its envs differ from the
            other workers'.
    """

    ends_a_restart: ClassVar[type[RoboRlError]] = RoboRlError
    """Errors that close the pool during a replacement; after other errors a reset may retry."""

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
            watch = AwakeWatch()
            for worker in self._workers:
                self._join(worker, watch)
        except BaseException:
            self.close()
            raise

    @property
    def closed(self) -> bool:
        """Return whether the pool is closed, by the user or after a failure."""
        return not self._close.alive

    @property
    def pids(self) -> list[int]:
        """Return the process id of each worker."""
        return [worker.pid for worker in self._workers]

    def rows(self, workers: Iterable[int]) -> list[int]:
        """Return the envs of some workers."""
        return [i for worker in workers for i in self.ids[worker]]

    def array(self, name: str) -> Tensor:
        """Return a copy of one array of all workers, (B, …)."""
        import torch

        return torch.from_numpy(np.concatenate([w.arrays[name] for w in self._workers]))

    def read(self, kind: str) -> dict[str, Tensor]:
        """Return copies of the arrays ``kind.<name>`` of all workers, name → (B, …)."""
        prefix = f"{kind}."
        names = [name for name in self._workers[0].arrays if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.array(name) for name in names}

    def reset(self, workers: Iterable[int], seeds: Sequence[int] | None) -> dict[int, WorkerLoss]:
        """Begin new episodes in the envs of some workers; see ``command``.

        Args:
            workers: Indices of the workers.
            seeds: One for each of the B envs; None continues the current streams.
        """
        each = {w: seeds and list(seeds[self.ids[w].start : self.ids[w].stop]) for w in workers}
        return self._exchange("reset", {w: {"seeds": own} for w, own in each.items()})

    def command(self, kind: str, **arguments: Any) -> dict[int, WorkerLoss]:
        """Send all workers a command and wait for all answers.

        Returns:
            The lost workers, which ``replace`` must replace; their arrays are invalid.

        Raises:
            RoboRlError: An env raised; its worker stays alive and its envs need a reset.
        """
        return self._exchange(kind, dict.fromkeys(range(len(self.ids)), arguments))

    def replace(self, lost: Mapping[int, WorkerLoss]) -> None:
        """End lost workers and start replacements, whose envs need a reset.

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
        """End the workers; a second call does nothing."""
        self._close()

    @abstractmethod
    def _unlike(self) -> RoboRlError:
        """Return the error for workers of equal arguments with different envs."""

    @abstractmethod
    def _given_up(self, worker: int, times: int, loss: WorkerLoss) -> RoboRlError:
        """Return the error for a worker that was lost too often in a row."""

    def _exchange(
        self, kind: str, arguments: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, WorkerLoss]:
        """Send each worker a command with its arguments; see ``command``."""
        self._seq += 1
        for worker, own in arguments.items():
            self._workers[worker].send(kind, self._seq, **own)
        watch = AwakeWatch()
        answers = {w: self._hear(self._workers[w], watch) for w in arguments}
        for worker, answer in answers.items():
            if isinstance(answer, RoboRlError):
                raise answer
            if answer is None and kind in _STEPPING:
                self._deaths[worker] = 0  # resets keep it: each loss leads to one
        return {w: answer for w, answer in answers.items() if isinstance(answer, WorkerLoss)}

    def _hear(self, worker: _Worker, watch: AwakeWatch) -> RoboRlError | WorkerLoss | None:
        answer = worker.receive(self._seq, watch)
        if answer is None and worker.arrays.get("seq", [0])[0] != self._seq:
            return WorkerLoss("it answered and had not written its arrays")
        return answer

    def _renew(self, workers: Iterable[int]) -> dict[int, WorkerLoss]:
        """Start replacements of workers; return those that were lost again before they joined."""
        again: dict[int, WorkerLoss] = {}
        started = list[int]()
        for worker in workers:  # start all first, because a simulator's import may take long
            with self._losing(worker, again):
                self._workers[worker] = self._spawn(self.ids[worker])
                started.append(worker)
        watch = AwakeWatch()
        for worker in started:
            with self._losing(worker, again):
                self._join(self._workers[worker], watch)
        return again

    @contextmanager
    def _losing(self, worker: int, lost: dict[int, WorkerLoss]) -> Generator[None]:
        """Record a worker that is lost within the block."""
        try:
            yield
        except WorkerLostError as error:
            lost[worker] = WorkerLoss(error.reason)
        except self.ends_a_restart:
            self.close()
            raise

    def _join(self, worker: _Worker, watch: AwakeWatch) -> None:
        worker.join(watch)
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
    """Request the end of processes, and wait for it.

    Args:
        owner: Id of the process that owns them.
        workers: The processes.
        finish: Called last.
    """
    if os.getpid() != owner:
        return  # a forked child does not own the workers
    for worker in workers:
        worker.close()
    deadline = time.monotonic() + _CLOSE_GRACE_S
    for worker in workers:
        worker.terminate(deadline)
    finish()
