"""Envs of simulators in another interpreter, as a ``VecEnv``; the training side.

Shapes: B envs, A act_dim. Envs are spread over worker processes (``robo_rl.env.serve``); a step is
one message to and from each. Arrays are in shared memory, also where the simulator runs on a GPU.
Handing over device memory (CUDA IPC) would save these copies.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

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
    """The world, its interpreter, and the time limits.

    Args:
        adapter: ``robosuite``, ``mjlab``, ``isaaclab``, ``point_mass``, or the path of a custom
            adapter (``WorldSession`` in ``robo_rl/env/serve/session.py`` has the interface).
        kwargs: Arguments of the adapter, for example ``{task: Lift}``.
        python: Interpreter that has the simulator. Empty selects the interpreter that ``robo-rl
            env create`` made for the adapter, or the current one for an adapter that needs none.
        socket: Socket of a running ``robo-rl serve-env``, instead of a new server; its interpreter
            is that of the server.
        workers: Number of worker processes, at most the number of envs.
        step_timeout_s: A worker that has not answered for this long is replaced.
        heartbeat_timeout_s: A worker without a heartbeat for this long during a command is
            replaced.
        start_timeout_s: Time for a worker to import its simulator and make its world.

    ``workers`` counts as a setting with effect: a simulator with one random stream for all its envs
    has one stream for each worker.
    """

    adapter: str
    kwargs: dict[str, Any] = Field(default_factory=dict)
    python: str = ""
    socket: str = ""
    workers: int = Field(default=1, ge=1)
    step_timeout_s: float = Field(default=60.0, gt=0)
    heartbeat_timeout_s: float = Field(default=5.0, ge=1.0)
    start_timeout_s: float = Field(default=900.0, gt=0)

    without_effect: ClassVar[tuple[str, ...]] = (
        *("socket", "step_timeout_s", "heartbeat_timeout_s", "start_timeout_s"),
    )

    @model_validator(mode="after")
    def _one_interpreter(self) -> Self:
        if self.python and self.socket:
            raise ValueError("python: the server behind socket has its own; leave one of both out")
        return self


class RemoteEnv(PooledEnv[RemotePool]):
    """B envs of a simulator in another interpreter, with tensors on the CPU.

    Seeds are as in ``PooledEnv``. A simulator with one random stream for all its envs uses the
    first seed of its worker.

    A worker that dies or hangs is replaced, and its envs begin new episodes. Their step has
    ``valid`` False, ``truncated`` True, the previous observation as ``next_obs``, and 1 in the
    metric ``worker_restarts``; envs of other workers are unaffected. A step with a non-finite
    observation or reward has the same flags, without the metric. The attribute
    ``worker_restarts`` counts the workers replaced so far. ``success`` is 0 where the world
    defines none.

    Args:
        cfg: See ``RemoteConfig``.
        num_envs: B.

    Raises:
        ConfigError: No such adapter.
        DeviceError: The interpreter or the simulator is missing.
        PluginError: The worker does not start, has another protocol version, or the adapter
            rejects the arguments.
        SpecError: The world's description is invalid.
    """

    Config = RemoteConfig
    begins = "obs"

    @staticmethod
    def fingerprint(cfg: RemoteConfig) -> Fingerprint:
        """Return the fingerprint of the adapter and of its imports in its interpreter.

        Raises:
            ConfigError: No such adapter.
            DeviceError: The interpreter is missing, or does not report its packages.
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
        """Return the current observation of every env, for a demonstrator."""
        return self._obs

    @property
    def busy_s(self) -> float:
        """Return the seconds in which any world has been computing so far."""
        return self._pool.busy_s

    def step(self, act: Tensor) -> Step:
        """Apply act (B, A) for one control step.

        Raises:
            SpecError: act has another shape, or a world's arrays do not fit its description.
            PluginError: The world raised and needs a reset, or its worker keeps dying.
        """
        self._check(act)
        self._pool.write_act(act.detach().cpu().numpy())
        before, self._obs = self._obs, {}  # after an error below, the envs need a reset
        lost = self._pool.command("step")
        step = self._read_step()
        _stay_where_cut(step, before)
        if lost:
            ids, fresh = self._begin_anew(lost)
            _cut(step, before, ids, fresh)
        self._obs = step.obs
        return step

    def demonstrate(self) -> Tensor:
        """Return the action of the world's demonstrator in every env, (B, A).

        Rows of a lost worker are zero; the next step reports the loss.

        Raises:
            PluginError: The world has no demonstrator, or was not reset.
        """
        self._demand_reset()
        lost = self._pool.command("demonstrate")
        act = self._pool.array("demonstration")
        act[self._pool.rows(lost)] = 0.0
        return act

    def expert(self, num_envs: int, generator: torch.Generator, noise: float) -> RemoteExpert:
        """Return the world's demonstrator with noise; see ``RemoteExpert``.

        Raises:
            PluginError: The world has no demonstrator.
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
    """Set ``next_obs`` of an invalid step to the observation before it."""
    cut = ~step.valid
    if cut.any():
        for name, part in step.next_obs.items():
            part[cut] = before[name][cut]


def _cut(step: Step, before: dict[str, Tensor], ids: list[int], fresh: dict[str, Tensor]) -> None:
    """Mark the envs ids as lost in this step, and overwrite their output."""
    for name, obs in fresh.items():
        step.obs[name][ids] = obs[ids]
        step.next_obs[name][ids] = before[name][ids]
    for part in (step.rew, step.terminated, step.valid, *step.metrics.values()):
        part[ids] = 0
    step.truncated[ids] = True
    step.metrics["worker_restarts"][ids] = 1.0


def _adapter(name: str) -> str:
    """Return the name of a built-in adapter, or the absolute path of a custom one."""
    if name in adapters():
        return name
    if not name.endswith(".py"):
        raise ConfigError(f"unknown adapter '{name}'", hint=did_you_mean(name, adapters()))
    if not Path(name).is_file():
        raise ConfigError("no such adapter", where=name)
    return str(Path(name).resolve())


def _python(cfg: RemoteConfig) -> str:
    """Return the interpreter for the server."""
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
