"""An env in worker processes: seeds, resets, and new episodes after a worker is lost.

Shapes: B envs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from robo_rl.core.errors import PluginError
from robo_rl.core.seeding import derive
from robo_rl.env.workers.pool import WorkerLoss, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

_Pool = TypeVar("_Pool", bound=WorkerPool[Any])


class PooledEnv(Generic[_Pool]):
    """Base of all envs with a ``WorkerPool``, whose workers have arrays ``<begins>.<name>``.

    Env i is seeded with ``env_seed(s, i)``, where s is the seed of ``reset``, 0 by default.

    Args:
        pool: The workers, closed with the env.
        num_envs: B.
    """

    begins: ClassVar[str]
    """Prefix of the arrays with the first observation of every env's newest episode."""

    def __init__(self, pool: _Pool, num_envs: int) -> None:
        import torch

        self.num_envs, self.device = num_envs, torch.device("cpu")
        self._pool = pool
        self.worker_restarts = 0
        self._seed, self._seeded = 0, False
        self._obs: dict[str, Tensor] = {}

    @property
    def worker_pids(self) -> list[int]:
        """Return the process id of each worker, in the order of their envs."""
        return self._pool.pids

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start a new episode in every env; see ``VecEnv``.

        Raises:
            PluginError: An env raised, or its worker keeps dying.
        """
        if seed is None and self._seeded:
            return self._reset(None)
        self._seed = seed or 0
        return self._reset([env_seed(self._seed, i) for i in range(self.num_envs)])

    def close(self) -> None:
        """End the workers and release their resources; a second call does nothing."""
        self._pool.close()

    def _reset(self, seeds: list[int] | None) -> dict[str, Tensor]:
        self._check_open()
        self._obs = {}
        self._start_episodes(range(len(self._pool.ids)), seeds)
        self._obs, self._seeded = self._pool.read(self.begins), True
        return self._obs

    def _check_open(self) -> None:
        if self._pool.closed:
            raise PluginError("it is closed", where=self._pool.where)

    def _demand_reset(self) -> None:
        self._check_open()
        if not self._obs:
            raise PluginError("reset it first", where=self._pool.where)

    def _begin_anew(self, lost: Mapping[int, WorkerLoss]) -> tuple[list[int], dict[str, Tensor]]:
        """Replace lost workers; return their envs, and observations valid for those envs only."""
        self._replace(lost)
        self._start_episodes(lost, self._restart_seeds())
        return self._pool.rows(lost), self._pool.read(self.begins)

    def _start_episodes(self, workers: Iterable[int], seeds: list[int] | None) -> None:
        """Reset the envs of some workers."""
        pending = list(workers)
        while lost := self._pool.reset(pending, seeds):
            self._replace(lost)
            pending, seeds = list(lost), seeds or self._restart_seeds()

    def _replace(self, lost: Mapping[int, WorkerLoss]) -> None:
        self._pool.replace(lost)
        self.worker_restarts += len(lost)

    def _restart_seeds(self) -> list[int]:
        """Return seeds that no env of this pool has had, so that no episode is collected twice."""
        return [env_seed(self._seed, i, self.worker_restarts) for i in range(self.num_envs)]


def env_seed(seed: int, env: int, restarts: int = 0) -> int:
    """Return the seed of one env, in 31 bits, the maximum of some random generators."""
    parts = (seed, env) if restarts == 0 else (seed, env, "restart", restarts)
    return derive("gym", *parts) % 2**31
