"""The worker pool of a ``RemoteEnv``: processes of a server in another interpreter.

Shapes: B envs of all workers, A act_dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from robo_rl.core.errors import PluginError, RoboRlError, SpecError
from robo_rl.env.remote.server_process import RemoteServer
from robo_rl.env.remote.worker import RemoteWorker, WorkerTimeouts
from robo_rl.env.workers.pool import WorkerLoss, WorkerPool


class RemotePool(WorkerPool[RemoteWorker]):
    """B envs in the workers of a server.

    Args:
        host: The server, closed with the pool.
        adapter: Name or path of the adapter on the server.
        kwargs: Arguments of the adapter.
        num_envs: B.
        num_workers: At most B.
        patience: Time limits of a worker.

    Attributes:
        world: Description of the worlds, see ``WorldSession`` in ``serve/session.py``.
        busy_s: Seconds in which any world has been computing.

    Raises:
        RoboRlError: A worker does not start, or cannot make its world; see ``RemoteWorker``.
        SpecError: The workers' worlds differ.
    """

    ends_a_restart = SpecError  # a lost server may be available again at the next reset
    world: dict[str, Any]

    def __init__(
        self,
        host: RemoteServer,
        adapter: str,
        kwargs: Mapping[str, Any],
        num_envs: int,
        num_workers: int,
        patience: WorkerTimeouts,
    ) -> None:
        self._host, self.busy_s = host, 0.0
        spawn = partial(_spawn, host, patience, {"adapter": adapter, "kwargs": kwargs})
        super().__init__(f"remote env '{adapter}'", num_envs, num_workers, spawn, host.close)

    def write_act(self, act: Any) -> None:
        """Write actions (B, A), a numpy array, to shared memory."""
        for worker, ids in zip(self._workers, self.ids, strict=True):
            worker.arrays["act"][...] = act[ids.start : ids.stop]

    def _exchange(
        self, kind: str, arguments: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, WorkerLoss]:
        lost = super()._exchange(kind, arguments)
        self.busy_s += max(self._workers[w].world_s for w in arguments)
        return lost

    def _unlike(self) -> RoboRlError:
        problem = "workers of the same arguments differ in their worlds"
        return SpecError(problem, where=self.where)

    def _given_up(self, worker: int, times: int, loss: WorkerLoss) -> RoboRlError:
        return PluginError(
            f"a worker was lost {times} times in a row: {loss.reason}",
            where=self.where,
            found=self._workers[worker].output_tail() or None,
            hint="step_timeout_s and heartbeat_timeout_s set how long it may take",
        )


def _spawn(
    host: RemoteServer, patience: WorkerTimeouts, request: Mapping[str, Any], ids: range
) -> RemoteWorker:
    return RemoteWorker(host, {**request, "num_envs": len(ids), "index": ids.start}, patience)
