"""Envs of simulators that cannot share our interpreter, as a ``VecEnv``; the side that trains.

Shapes: B envs, A act_dim. Envs are spread over worker processes (``serve/server.py``); a step is
one message to and from each, and arrays are in shared memory, also where the simulator runs on a
GPU. Handing over device memory (CUDA IPC), where both sides have it, would save these copies.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from robo_rl.config import ConfigModel
from robo_rl.env import interpreters
from robo_rl.env.base import Step
from robo_rl.env.gym_env import env_seed
from robo_rl.env.gym_pool import Lost
from robo_rl.env.remote_host import Host
from robo_rl.env.remote_pool import RemotePool
from robo_rl.env.remote_worker import Patience
from robo_rl.env.serve.server import adapters
from robo_rl.errors import ConfigError, DeviceError, PluginError, SpecError
from robo_rl.naming import did_you_mean
from robo_rl.spec import ActSpec, ObsSpec, TensorSpec

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.env.remote_expert import RemoteExpert


class RemoteConfig(ConfigModel):
    """Which world, where, and how long to wait for it.

    Args:
        adapter: ``robosuite``, ``mjlab``, ``isaaclab``, ``point_mass``, or the path of an adapter
            of your own (``Session`` in ``robo_rl/env/serve/server.py`` says what is in one).
        kwargs: Arguments of the adapter, for example ``{task: Lift}``.
        python: Interpreter that has the simulator; empty for the one that ``robo-rl env create``
            made for the adapter, and our own for an adapter that needs none.
        socket: Where ``robo-rl serve-env`` listens, instead of starting a server.
        workers: Processes that the envs are spread over; never more than there are envs.
        step_timeout_s: A worker that has not answered for this long is replaced.
        silence_s: Likewise one that gives no sign of life for this long while it works.
        start_timeout_s: Time for a worker to import its simulator and make its world.
    """

    adapter: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    python: str = ""
    socket: str = ""
    workers: int = Field(default=1, ge=1)
    step_timeout_s: float = Field(default=60.0, gt=0)
    silence_s: float = Field(default=5.0, ge=1.0)
    start_timeout_s: float = Field(default=900.0, gt=0)


class RemoteEnv:
    """B envs of another interpreter's simulator, on the CPU.

    Env i of seed s is seeded with ``env_seed(s, i)``; before the first seed it is 0. A simulator
    with one random stream for all its envs takes the first of these.

    A worker that dies or hangs is replaced and its envs begin new episodes: their step gets
    ``valid`` False, ``truncated`` True, ``next_obs`` the observation acted on, and 1 in the metric
    ``worker_restarts``; no env of another worker notices. The same mark, without the metric, is on
    a step whose observation or reward was not finite. ``worker_restarts`` counts the workers
    replaced so far. Where a world has no ``success``, it is 0.

    Args:
        cfg: See ``RemoteConfig``.
        num_envs: B.

    Raises:
        ConfigError: No such adapter.
        DeviceError: The interpreter or the simulator is not there.
        PluginError: The worker does not start, speaks another protocol, or the adapter does not
            know the arguments.
        SpecError: What the world says of itself cannot be read.
    """

    Config = RemoteConfig

    def __init__(self, cfg: RemoteConfig, num_envs: int) -> None:
        import torch

        self.cfg, self.num_envs, self.device = cfg, num_envs, torch.device("cpu")
        adapter = _adapter(cfg.adapter)
        host = Host(socket=cfg.socket) if cfg.socket else Host(python=_python(cfg))
        patience = Patience(cfg.start_timeout_s, cfg.step_timeout_s, cfg.silence_s)
        count = min(cfg.workers, num_envs)
        self._pool = RemotePool(host, adapter, cfg.kwargs, num_envs, count, patience)
        self.worker_restarts = 0
        self._seed, self._seeded = 0, False
        self._obs: dict[str, Tensor] = {}
        try:
            self._learn(self._pool.world)
        except BaseException:
            self.close()
            raise

    @property
    def view(self) -> dict[str, Tensor]:
        """The observation that every env stands at, for a demonstrator."""
        return self._obs

    @property
    def worker_pids(self) -> list[int]:
        """Process id of each worker, in the order of their envs."""
        return self._pool.pids

    @property
    def busy_s(self) -> float:
        """Seconds in which any world was at work so far."""
        return self._pool.busy_s

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """Start a new episode in every env; see ``VecEnv``.

        Raises:
            PluginError: The world raised, or its worker keeps dying.
        """
        self._check_open()
        seeds = None
        if seed is not None or not self._seeded:
            self._seed = seed or 0
            seeds = [env_seed(self._seed, i) for i in range(self.num_envs)]
        self._obs = {}
        self._start_episodes(range(len(self._pool.ids)), seeds)
        self._obs, self._seeded = self._pool.read("obs"), True
        return self._obs

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step.

        Raises:
            SpecError: act has another shape, or a world's arrays do not fit what it said of them.
            PluginError: The world raised, which calls for a reset, or its worker keeps dying.
        """
        self._check(act)
        self._pool.write_act(act.detach().cpu().numpy())
        before, self._obs = self._obs, {}  # whatever goes wrong now, the envs need a reset
        lost = self._pool.exchange("step")
        step = self._read_step()
        _stay_where_cut(step, before)
        if lost:
            self._begin_anew(step, before, lost)
        self._obs = step.obs
        return step

    def demonstrate(self) -> Tensor:
        """What the world's demonstrator does in every env, (B, A).

        Zeros for a worker that is found lost; the step that follows says so.

        Raises:
            PluginError: The world has none, or was not reset.
        """
        self._demand_reset()
        lost = self._pool.exchange("demonstrate")
        act = self._pool.array("demonstration")
        act[self._pool.rows(lost)] = 0.0
        return act

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> RemoteExpert:
        """The world's demonstrator with noise; see ``RemoteExpert``.

        Raises:
            PluginError: The world has none.
        """
        from robo_rl.env.remote_expert import RemoteExpert

        if not self._pool.world.get("demonstrates"):
            raise PluginError("no scripted expert in this world", where=self._where)
        return RemoteExpert(self, generator, noise)

    def close(self) -> None:
        """End the workers, and the server if it is ours; calling it twice is harmless."""
        self._pool.close()

    @property
    def _where(self) -> str:
        return f"remote env '{self.cfg.adapter}'"

    def _learn(self, world: dict[str, Any]) -> None:
        try:
            self.dt_s, self.max_episode_steps = world["dt_s"], world["max_episode_steps"]
            items = {name: TensorSpec(**spec) for name, spec in world["obs"].items()}
            self.obs_spec = ObsSpec(items=items)
            self.act_spec = ActSpec(**world["act"], rate_hz=1.0 / self.dt_s)
            if not (0.0 < self.dt_s < math.inf and int(self.max_episode_steps) > 0):
                raise TypeError(f"dt_s {self.dt_s}, max_episode_steps {self.max_episode_steps}")
            if not all(map(math.isfinite, (*self.act_spec.low, *self.act_spec.high))):
                raise TypeError("limits of actions that are not finite")
        except (ValidationError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            problem = "what the adapter says of its world does not fit"
            raise SpecError(problem, where=self._where, found=error) from None

    def _check_open(self) -> None:
        if self._pool.closed:
            raise PluginError("it is closed", where=self._where)

    def _demand_reset(self) -> None:
        self._check_open()
        if not self._obs:
            raise PluginError("reset it first", where=self._where)

    def _check(self, act: Tensor) -> None:
        self._demand_reset()
        if tuple(act.shape) != (self.num_envs, *self.act_spec.shape):
            expected = (self.num_envs, *self.act_spec.shape)
            raise SpecError("'act' does not fit", expected=expected, found=tuple(act.shape))

    def _begin_anew(self, step: Step, before: dict[str, Tensor], lost: dict[int, Lost]) -> None:
        """Replace lost workers; mark their envs' step as cut, whatever they had written."""
        rows = self._pool.rows(lost)
        self._replace(lost)
        self._start_episodes(lost, self._restart_seeds())
        for name, fresh in self._pool.read("obs").items():
            step.obs[name][rows] = fresh[rows]
            step.next_obs[name][rows] = before[name][rows]
        for part in (step.rew, step.terminated, step.valid, *step.metrics.values()):
            part[rows] = 0
        step.truncated[rows] = True
        step.metrics["worker_restarts"][rows] = 1.0

    def _start_episodes(self, workers: Iterable[int], seeds: list[int] | None) -> None:
        """Reset the envs of some workers."""
        pending = list(workers)
        while lost := self._pool.exchange("reset", pending, seeds=seeds):
            self._replace(lost)
            pending, seeds = list(lost), seeds or self._restart_seeds()

    def _replace(self, lost: dict[int, Lost]) -> None:
        self._pool.replace(lost)
        self.worker_restarts += len(lost)

    def _restart_seeds(self) -> list[int]:
        """Streams that no env has had, so that no episode is collected twice."""
        return [env_seed(self._seed, i, self.worker_restarts) for i in range(self.num_envs)]

    def _read_step(self) -> Step:
        import torch

        pool = self._pool
        none = {name: torch.zeros(self.num_envs) for name in ("success", "worker_restarts")}
        return Step(
            obs=pool.read("obs"),
            next_obs=pool.read("next_obs"),
            rew=pool.array("rew"),
            terminated=pool.array("terminated"),
            truncated=pool.array("truncated"),
            valid=pool.array("valid"),
            metrics={**none, **pool.read("metrics")},
        )


def _stay_where_cut(step: Step, before: dict[str, Tensor]) -> None:
    """A step that did not take place has no successor: its ``next_obs`` is what it acted on."""
    cut = ~step.valid
    if cut.any():
        for name, part in step.next_obs.items():
            part[cut] = before[name][cut]


def _adapter(name: str) -> str:
    """The name of an adapter of ours, or the whole path of one."""
    if name in adapters():
        return name
    if not name.endswith(".py"):
        raise ConfigError(f"unknown adapter '{name}'", hint=did_you_mean(name, adapters()))
    if not Path(name).is_file():
        raise ConfigError("no such adapter", where=name)
    return str(Path(name).resolve())


def _python(cfg: RemoteConfig) -> str:
    """The interpreter to start a server in."""
    if cfg.python:
        return cfg.python
    if cfg.adapter not in interpreters.RECIPES:
        return sys.executable
    found = interpreters.interpreter(cfg.adapter)
    if found is None:
        raise DeviceError(
            f"no interpreter for '{cfg.adapter}'",
            hint=f"make one with: robo-rl env create {cfg.adapter}; or name one as env.python",
        )
    return str(found)
