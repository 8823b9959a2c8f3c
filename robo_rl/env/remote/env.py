"""Envs of simulators that cannot share our interpreter, as a ``VecEnv``; the side that trains.

Shapes: B envs, A act_dim. Envs are spread over worker processes (``robo_rl.env.serve``); a step is
one message to and from each, and arrays are in shared memory, also where the simulator runs on a
GPU. Handing over device memory (CUDA IPC), where both sides have it, would save these copies.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from robo_rl.api.env import Step, demand_arrays
from robo_rl.config.fingerprint import Fingerprint
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError, DeviceError, PluginError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.remote import interpreters
from robo_rl.env.remote.fingerprint import remote_fingerprint
from robo_rl.env.remote.pool import RemotePool
from robo_rl.env.remote.server_process import RemoteServer
from robo_rl.env.remote.worker import WorkerTimeouts
from robo_rl.env.serve.adapters import adapters
from robo_rl.env.workers.pooled_env import PooledEnv

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from robo_rl.env.remote.expert import RemoteExpert


class RemoteConfig(ConfigModel):
    """Which world, where, and how long to wait for it.

    Args:
        adapter: ``robosuite``, ``mjlab``, ``isaaclab``, ``point_mass``, or the path of an adapter
            of your own (``Session`` in ``robo_rl/env/serve/session.py`` says what is in one).
        kwargs: Arguments of the adapter, for example ``{task: Lift}``.
        python: Interpreter that has the simulator; empty for the one that ``robo-rl env create``
            made for the adapter, and our own for an adapter that needs none.
        socket: Where ``robo-rl serve-env`` listens, instead of starting a server.
        workers: Processes that the envs are spread over; never more than there are envs.
        step_timeout_s: A worker that has not answered for this long is replaced.
        heartbeat_timeout_s: Likewise one that gives no sign of life for this long while it works.
        start_timeout_s: Time for a worker to import its simulator and make its world.
    """

    adapter: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    python: str = ""
    socket: str = ""
    workers: int = Field(default=1, ge=1)
    step_timeout_s: float = Field(default=60.0, gt=0)
    heartbeat_timeout_s: float = Field(default=5.0, ge=1.0)
    start_timeout_s: float = Field(default=900.0, gt=0)


class RemoteEnv(PooledEnv[RemotePool]):
    """B envs of another interpreter's simulator, on the CPU.

    Seeds are as in ``PooledEnv``. A simulator with one random stream for all its envs takes the
    first of its worker's.

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
    begins = "obs"

    @staticmethod
    def fingerprint(cfg: RemoteConfig) -> Fingerprint:
        """Of the adapter, and of what it imports in its interpreter.

        Raises:
            ConfigError: No such adapter.
            DeviceError: The interpreter is not there, or does not say what is in it.
        """
        adapter = _adapter(cfg.adapter)
        python = None if cfg.socket else _python(cfg)
        return remote_fingerprint(adapter, python, own=cfg.adapter not in adapters())

    def __init__(self, cfg: RemoteConfig, num_envs: int) -> None:
        self.cfg = cfg
        adapter = _adapter(cfg.adapter)
        host = RemoteServer(socket=cfg.socket) if cfg.socket else RemoteServer(python=_python(cfg))
        patience = WorkerTimeouts(cfg.start_timeout_s, cfg.step_timeout_s, cfg.heartbeat_timeout_s)
        count = min(cfg.workers, num_envs)
        super().__init__(RemotePool(host, adapter, cfg.kwargs, num_envs, count, patience), num_envs)
        try:
            self._read_specs(self._pool.world)
        except BaseException:
            self.close()
            raise

    @property
    def view(self) -> dict[str, Tensor]:
        """The observation that every env stands at, for a demonstrator."""
        return self._obs

    @property
    def busy_s(self) -> float:
        """Seconds in which any world was at work so far."""
        return self._pool.busy_s

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step.

        Raises:
            SpecError: act has another shape, or a world's arrays do not fit what it said of them.
            PluginError: The world raised, which calls for a reset, or its worker keeps dying.
        """
        self._check(act)
        self._pool.write_act(act.detach().cpu().numpy())
        before, self._obs = self._obs, {}  # whatever goes wrong now, the envs need a reset
        lost = self._pool.command("step")
        step = self._read_step()
        _stay_where_cut(step, before)
        if lost:
            ids, fresh = self._begin_anew(lost)
            _cut(step, before, ids, fresh)
        self._obs = step.obs
        return step

    def demonstrate(self) -> Tensor:
        """What the world's demonstrator does in every env, (B, A).

        Zeros for a worker that is found lost; the step that follows says so.

        Raises:
            PluginError: The world has none, or was not reset.
        """
        self._demand_reset()
        lost = self._pool.command("demonstrate")
        act = self._pool.array("demonstration")
        act[self._pool.rows(lost)] = 0.0
        return act

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> RemoteExpert:
        """The world's demonstrator with noise; see ``RemoteExpert``.

        Raises:
            PluginError: The world has none.
        """
        from robo_rl.env.remote.expert import RemoteExpert

        if not self._pool.world.get("demonstrates"):
            raise PluginError("no scripted expert in this world", where=self._pool.where)
        return RemoteExpert(self.demonstrate, self.act_spec, generator, noise)

    def _read_specs(self, world: dict[str, Any]) -> None:
        try:
            self.dt_s, self.max_episode_steps = world["dt_s"], world["max_episode_steps"]
            items = {name: TensorSpec(**spec) for name, spec in world["obs"].items()}
            self.obs_spec = ObsSpec(items=items)
            demand_arrays(self.obs_spec, self._pool.where)
            self.act_spec = ActSpec(**world["act"], rate_hz=1.0 / self.dt_s)
            if not (0.0 < self.dt_s < math.inf and int(self.max_episode_steps) > 0):
                raise TypeError(f"dt_s {self.dt_s}, max_episode_steps {self.max_episode_steps}")
            if not all(map(math.isfinite, (*self.act_spec.low, *self.act_spec.high))):
                raise TypeError("limits of actions that are not finite")
        except (ValidationError, KeyError, TypeError, ValueError, ArithmeticError) as error:
            problem = "what the adapter says of its world does not fit"
            raise SpecError(problem, where=self._pool.where, found=error) from None

    def _check(self, act: Tensor) -> None:
        self._demand_reset()
        if tuple(act.shape) != (self.num_envs, *self.act_spec.shape):
            expected = (self.num_envs, *self.act_spec.shape)
            raise SpecError("'act' does not fit", expected=expected, found=tuple(act.shape))

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


def _cut(step: Step, before: dict[str, Tensor], ids: list[int], fresh: dict[str, Tensor]) -> None:
    """Say that the envs ids were lost in this step, whatever they had written."""
    for name, obs in fresh.items():
        step.obs[name][ids] = obs[ids]
        step.next_obs[name][ids] = before[name][ids]
    for part in (step.rew, step.terminated, step.valid, *step.metrics.values()):
        part[ids] = 0
    step.truncated[ids] = True
    step.metrics["worker_restarts"][ids] = 1.0


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
    found = interpreters.find_interpreter(cfg.adapter)
    if found is None:
        raise DeviceError(
            f"no interpreter for '{cfg.adapter}'",
            hint=f"make one with: robo-rl env create {cfg.adapter}; or name one as env.python",
        )
    return str(found)
