"""Any Gymnasium id as a ``VecEnv`` with open-loop rollouts, through a pool of worker processes.

Shapes: B envs, T steps of an open-loop sequence, A act_dim. A rollout is one message to and from
each worker. Envs are made single and reset by the worker in the step that ends their episode, so
Gymnasium's autoreset modes play no part; its ``TimeLimit`` gives ``truncated`` with the true last
observation in ``next_obs``.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from pydantic import Field

from robo_rl.config import ConfigModel
from robo_rl.env.base import check_groups
from robo_rl.env.gym_pool import WorkerPool
from robo_rl.env.gym_shared import EnvRequest, Interface
from robo_rl.env.gym_steps import block_steps, copy_block, cut_first_step
from robo_rl.errors import PluginError, SpecError
from robo_rl.registry import missing_extra
from robo_rl.seeding import derive
from robo_rl.spec import ActSpec, ObsSpec, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from robo_rl.env.base import Step


class PoolConfig(ConfigModel):
    """How the worker processes are run.

    Args:
        workers: Processes; 0 for one a CPU. Never more than there are envs.
        step_timeout_s: A worker that finishes no env step for this long is replaced.
        start_timeout_s: Time for a worker to import its packages and make its envs.
    """

    workers: int = Field(default=0, ge=0)
    step_timeout_s: float = Field(default=30.0, gt=0)
    start_timeout_s: float = Field(default=120.0, gt=0)


class GymEnvConfig(PoolConfig):
    """Which Gymnasium env; see ``PoolConfig`` for how it is run.

    Args:
        id: Name that ``gymnasium.make`` knows.
        kwargs: Further arguments of ``gymnasium.make``.
        max_episode_steps: Time limit instead of the env's own; required where it has none.
        import_module: Module that registers the env, imported in the workers.
    """

    id: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    max_episode_steps: int | None = Field(default=None, gt=0)
    import_module: str = ""


class GymEnv:
    """B Gymnasium envs of one id as a ``VecEnv`` and ``OpenLoop``, on the CPU.

    A Box observation is ``state``; a Dict of Boxes keeps its names; uint8 stays uint8 and all else
    is float32. Actions are clipped to the action space. Env i of seed s is seeded with
    ``env_seed(s, i)``; before the first seed it is 0.

    A worker that dies or hangs is replaced and its envs begin new episodes: their step (in a
    rollout, the first) gets ``valid`` False, ``truncated`` True, ``next_obs`` the observation acted
    on, and 1 in the metric ``worker_restarts``; no other env notices. The same mark, without the
    metric, is on a step whose observation or reward was not finite. ``worker_restarts`` counts the
    workers replaced so far.

    Args:
        cfg: See ``GymEnvConfig``.
        num_envs: B.

    Raises:
        PluginError: No such env, or it cannot be made.
        SpecError: Its spaces are not Boxes.
        ConfigError: It has no time limit and none was given.
        DeviceError: gymnasium is not installed, or there is too little shared memory.
    """

    Config = GymEnvConfig

    def __init__(self, cfg: GymEnvConfig, num_envs: int) -> None:
        import torch

        if importlib.util.find_spec("gymnasium") is None:  # the workers need it, not we
            error = ModuleNotFoundError("No module named 'gymnasium'", name="gymnasium")
            raise missing_extra(error) or error
        self.cfg, self.num_envs, self.device = cfg, num_envs, torch.device("cpu")
        request = EnvRequest(cfg.id, cfg.kwargs, cfg.max_episode_steps, cfg.import_module)
        self._pool = WorkerPool(
            request,
            num_envs,
            min(cfg.workers or usable_cpus(), num_envs),
            step_timeout_s=cfg.step_timeout_s,
            start_timeout_s=cfg.start_timeout_s,
        )
        interface = self._pool.interface
        self.dt_s, self.max_episode_steps = interface.dt_s, interface.max_episode_steps
        self.obs_spec, self.act_spec = _obs_spec(interface), _act_spec(interface)
        self.worker_restarts = 0
        self._seed, self._seeded = 0, False
        self._obs: dict[str, Tensor] = {}

    @property
    def worker_pids(self) -> list[int]:
        """Process id of each worker, in the order of their envs."""
        return self._pool.pids

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start a new episode in every env; see ``VecEnv``.

        Raises:
            PluginError: An env raised, or its worker keeps dying.
        """
        seeds = None
        if seed is not None or not self._seeded:
            self._seed = seed or 0
            seeds = [env_seed(self._seed, i) for i in range(self.num_envs)]
        return self._reset(seeds)

    def reset_groups(self, size: int, seed: int) -> dict[str, Tensor]:
        """Start a new episode in every env, those of a group from one seed; see ``Groupable``.

        Raises:
            ConfigError: The envs do not make whole groups.
            PluginError: An env raised, or its worker keeps dying.
        """
        check_groups(size, self.num_envs)
        self._seed = seed
        return self._reset([env_seed(seed, i // size) for i in range(self.num_envs)])

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one step; see ``rollout``."""
        return self.rollout(act.unsqueeze(1))[0]

    def rollout(self, act: Tensor) -> list[Step]:
        """Apply act (B, T, A) open loop; T steps, an env waits in those behind its episode's end.

        Raises:
            SpecError: act has another shape.
            PluginError: An env raised, which calls for a reset, or its worker keeps dying.
        """
        self._check(act)
        steps = act.shape[1]
        arrays = self._pool.reserve(steps).arrays
        arrays["act"][:, :steps] = act.detach().cpu().numpy()
        before, self._obs = self._obs, {}  # whatever goes wrong now, the envs need a reset
        lost = self._pool.exchange("rollout", dict.fromkeys(range(len(self._pool.ids)), steps))
        block = copy_block(self._pool.segment, steps)
        if lost:
            self._restart(block, lost)
        result = block_steps(block, before)
        self._obs = result[-1].obs
        return result

    def close(self) -> None:
        """End the workers and free their memory; calling it twice is harmless."""
        self._pool.close()

    def _reset(self, seeds: list[int] | None) -> dict[str, Tensor]:
        self._check_open()
        self._pool.reserve(1)
        self._obs = {}
        self._obs = self._start_episodes(range(len(self._pool.ids)), seeds)
        self._seeded = True
        return self._obs

    def _check_open(self) -> None:
        if self._pool.closed:
            raise PluginError("it is closed", where=f"Gymnasium env '{self.cfg.id}'")

    def _check(self, act: Tensor) -> None:
        self._check_open()
        if not self._obs:
            raise PluginError("reset it first", where=f"Gymnasium env '{self.cfg.id}'")
        if act.shape[0] == self.num_envs and act.ndim == 3 and act.shape[1] > 0:
            self.act_spec.validate_array("act", act, batch_axes=2)
            return
        expected = (self.num_envs, "T ≥ 1", *self.act_spec.shape)
        raise SpecError("'act' does not fit", expected=expected, found=tuple(act.shape))

    def _restart(self, block: dict[str, Tensor], lost: dict[int, Any]) -> None:
        """Replace lost workers; mark their envs' first step as cut in the block."""
        ids = [i for worker in lost for i in self._pool.ids[worker]]
        self._replace(lost)
        obs = self._start_episodes(list(lost), self._restart_seeds())
        for name, fresh in obs.items():
            block[f"reset_obs.{name}"][ids] = fresh[ids]
        cut_first_step(block, ids)

    def _start_episodes(self, workers: Sequence[int], seeds: list[int] | None) -> dict[str, Tensor]:
        """Reset the envs of some workers; returns name → (B, …), of use for these envs only."""
        import torch

        obs = {f"reset_obs.{name}": torch.empty(0) for name in self.obs_spec.items}
        ids = self._pool.ids
        pending = list(workers)
        while pending:
            pick = {w: None if seeds is None else [seeds[i] for i in ids[w]] for w in pending}
            lost = self._pool.exchange("reset", pick)
            for name, old in obs.items():
                array = torch.from_numpy(self._pool.segment.arrays[name].copy())
                done = [i for w in pending if w not in lost for i in ids[w]]
                obs[name] = old if len(old) else array
                obs[name][done] = array[done]
            if lost:
                self._replace(lost)
                seeds = seeds or self._restart_seeds()
            pending = list(lost)
        return {name.removeprefix("reset_obs."): array for name, array in obs.items()}

    def _replace(self, lost: dict[int, Any]) -> None:
        self._pool.replace(lost)
        self.worker_restarts += len(lost)

    def _restart_seeds(self) -> list[int]:
        """Streams that no env of this pool has had, so that no episode is collected twice."""
        return [env_seed(self._seed, i, self.worker_restarts) for i in range(self.num_envs)]


def env_seed(seed: int, env: int, restarts: int = 0) -> int:
    """Seed of one env, in 31 bits: some envs pass theirs on to generators that take no more."""
    parts = (seed, env) if restarts == 0 else (seed, env, "restart", restarts)
    return derive("gym", *parts) % 2**31


def _obs_spec(interface: Interface) -> ObsSpec:
    items: dict[str, TensorSpec] = {}
    for name, (shape, dtype) in interface.obs.items():
        low, high = interface.obs_limits.get(name, ((), ()))
        items[name] = TensorSpec(shape=shape, dtype=dtype, low=low, high=high)
    return ObsSpec(items=items)


def _act_spec(interface: Interface) -> ActSpec:
    return ActSpec(
        shape=(interface.act_dim,),
        low=interface.act_low,
        high=interface.act_high,
        rate_hz=1.0 / interface.dt_s,
    )


def usable_cpus() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):  # a container or a job may own fewer than the machine has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
