"""The workers of a ``RemoteEnv``: started, spoken to all at once, and replaced when they are lost.

Shapes: B envs of all workers. ``gym_pool`` does this for processes of our own interpreter, which
share a segment and are spoken to in pickle; these are strangers.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from robo_rl.env.gym_pool import Lost
from robo_rl.env.remote_host import Host
from robo_rl.env.remote_worker import Patience, RemoteWorker, WorkerLostError
from robo_rl.errors import PluginError, RoboRlError, SpecError

if TYPE_CHECKING:
    from torch import Tensor

_MAX_DEATHS_IN_A_ROW = 3


class RemotePool:
    """B envs in some workers of a server.

    Args:
        host: The server, closed with the pool.
        adapter: Its name or path there, and ``kwargs`` for it.
        kwargs: See ``adapter``.
        num_envs: B.
        num_workers: At most B.
        patience: How long a worker may take.

    Attributes:
        ids: The envs of each worker.
        world: What the worlds say of themselves, see ``Session`` in ``serve/server.py``.
        busy_s: Seconds in which any world was at work.

    Raises:
        RoboRlError: A worker does not start, or cannot make its world; see ``RemoteWorker``.
        SpecError: Workers differ in their worlds.
    """

    def __init__(
        self,
        host: Host,
        adapter: str,
        kwargs: Mapping[str, Any],
        num_envs: int,
        num_workers: int,
        patience: Patience,
    ) -> None:
        self._host, self._patience = host, patience
        self._request: dict[str, Any] = {"adapter": adapter, "kwargs": kwargs}
        self.ids = [
            range(num_envs * w // num_workers, num_envs * (w + 1) // num_workers)
            for w in range(num_workers)
        ]
        self._workers: list[RemoteWorker] = []
        self._close = weakref.finalize(self, _shut_down, os.getpid(), self._workers, host)
        self._seq, self._deaths = 0, [0] * num_workers
        self.world: dict[str, Any] = {}
        self.busy_s = 0.0
        try:
            for worker in range(num_workers):
                self._workers.append(self._start(worker))
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

    def write_act(self, act: Any) -> None:
        """Hand over actions (B, A), a numpy array."""
        for worker, ids in zip(self._workers, self.ids, strict=True):
            worker.arrays["act"][...] = act[ids.start : ids.stop]

    def read(self, kind: str) -> dict[str, Tensor]:
        """Copies of the arrays ``kind.<name>`` of all workers, name → (B, …)."""
        prefix = f"{kind}."
        names = [name for name in self._workers[0].arrays if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.array(name) for name in names}

    def array(self, name: str) -> Tensor:
        """A copy of one array of all workers, (B, …)."""
        import torch

        return torch.from_numpy(np.concatenate([w.arrays[name] for w in self._workers]))

    def rows(self, workers: Iterable[int]) -> list[int]:
        """The envs of some workers."""
        return [i for worker in workers for i in self.ids[worker]]

    def exchange(
        self, kind: str, workers: Iterable[int] | None = None, **each: Sequence[Any] | None
    ) -> dict[int, Lost]:
        """Give workers a command and wait for all of them.

        Args:
            kind: Of the command.
            workers: Which; all if not given.
            each: Name → argument of every env, of which a worker gets its envs' own; or None.

        Returns:
            Those that were lost, which ``replace`` must replace; their arrays hold nothing of use.

        Raises:
            RoboRlError: A world went wrong; the worker lives on and its envs need a reset.
        """
        self._seq += 1
        asked = list(range(len(self._workers)) if workers is None else workers)
        for w in asked:
            ids = self.ids[w]
            own = {name: rows and rows[ids.start : ids.stop] for name, rows in each.items()}
            self._workers[w].send(kind, self._seq, **own)
        sent_at = time.monotonic()
        answers = {w: self._workers[w].receive(self._seq, sent_at) for w in asked}
        for worker, answer in answers.items():
            if isinstance(answer, RoboRlError):
                raise answer
            if answer is None and kind == "step":
                self._deaths[worker] = 0  # not by a reset, which follows each death
        self.busy_s += max(self._workers[w].world_s for w in asked)
        return {w: answer for w, answer in answers.items() if isinstance(answer, Lost)}

    def replace(self, lost: Mapping[int, Lost]) -> None:
        """Start lost workers' worlds anew; their envs need a reset.

        Raises:
            PluginError: A worker was lost too often in a row; the pool is closed.
        """
        pending = dict(lost)
        while pending:
            for worker, loss in pending.items():
                self._count_death(worker, loss)
                self._workers[worker].close()
            pending = self._renew(pending)

    def close(self) -> None:
        """End the workers, and the server if it is ours; calling it twice is harmless."""
        self._close()

    def _renew(self, workers: Iterable[int]) -> dict[int, Lost]:
        """Start workers anew; returns those that were lost again before they had a world."""
        again: dict[int, Lost] = {}
        started = list[int]()
        for worker in workers:  # all of them first, for a simulator may take long to import
            with self._losing(worker, again):
                self._workers[worker] = self._start(worker)
                started.append(worker)
        for worker in started:
            with self._losing(worker, again):
                self._join(self._workers[worker])
        return again

    @contextmanager
    def _losing(self, worker: int, lost: dict[int, Lost]) -> Generator[None]:
        """Note a worker that is lost within it; a world that differs ends the pool."""
        try:
            yield
        except WorkerLostError as error:
            lost[worker] = Lost(str(error.found))
        except SpecError:
            self.close()
            raise

    def _start(self, worker: int) -> RemoteWorker:
        ids = self.ids[worker]
        request = {**self._request, "num_envs": len(ids), "index": ids.start}
        return RemoteWorker(self._host, request, self._patience)

    def _join(self, worker: RemoteWorker) -> None:
        """Wait for a worker's world, which must be like the others'."""
        worker.join()
        self.world = self.world or worker.world
        if worker.world != self.world:
            problem = "workers of the same arguments differ in their worlds"
            raise SpecError(problem, where=f"remote env '{self._request['adapter']}'")

    def _count_death(self, worker: int, loss: Lost) -> None:
        self._deaths[worker] += 1
        if self._deaths[worker] > _MAX_DEATHS_IN_A_ROW:
            words = self._workers[worker].last_words()
            self.close()
            raise PluginError(
                f"a worker was lost {self._deaths[worker]} times in a row: {loss.reason}",
                where=f"remote env '{self._request['adapter']}'",
                found=words or None,
                hint="step_timeout_s and silence_s set how long it may take",
            )


def _shut_down(owner: int, workers: list[RemoteWorker], host: Host) -> None:
    if os.getpid() != owner:
        return  # a forked child has no business with our workers
    for worker in workers:
        worker.close()
    host.close()
