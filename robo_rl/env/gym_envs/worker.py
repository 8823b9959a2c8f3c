"""One worker process of ``GymEnv``: makes its envs, steps them, resets them at an episode's end.

A worker answers every message (seq, kind, arguments) except "memory" with (seq, answer). An answer
that is a ``RoboRlError`` describes an env's error. Arrays travel through shared memory only.
Shapes as in ``robo_rl.env.workers.shared_memory``.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import traceback
from contextlib import suppress
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from robo_rl.core.errors import PluginError, RoboRlError, SpecError
from robo_rl.core.labels import as_flag
from robo_rl.env.rendering.live_worlds import EnvCameras
from robo_rl.env.serve.shared_arrays import Arrays, arrays_in
from robo_rl.env.workers.channel import PickleConnection
from robo_rl.env.workers.env_interface import obs_names, read_interface
from robo_rl.env.workers.global_generators import GlobalGenerators
from robo_rl.env.workers.shared_memory import EnvRequest, shared_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRACEBACK_CHARS = 4000
_LARGEST = float(np.finfo(np.float32).max)


def main(fd: int) -> None:
    """Serve over the socket fd until it closes.

    The first message has the arguments of ``EnvGroup``, the first answer its ``EnvInterface``.
    """
    # The parent handles the signals, and closes the socket.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    channel = PickleConnection(
        socket.socket(fileno=fd), timeout_s=None
    )  # the parent may read from other workers first
    group = None
    try:
        group = EnvGroup(*channel.receive()[0])
        channel.send((0, group.interface))
        while True:
            (seq, kind, arguments), memory = channel.receive()
            if memory is not None:
                group.attach(memory, arguments["steps"])
            else:
                channel.send((seq, group.handle(seq, kind, arguments)))
    except RoboRlError as error:
        channel.send((0, error))
    except (EOFError, OSError):
        pass  # the parent closed the channel, or is gone
    finally:
        if group is not None:
            group.close()


class EnvGroup:
    """The envs of one worker.

    Args:
        request: The env to make.
        ids: Index of each env among the B envs of the whole pool.

    Raises:
        PluginError: The env cannot be made.
        SpecError: Its spaces are not supported.
        ConfigError: It has no time limit.
    """

    def __init__(self, request: EnvRequest, ids: Sequence[int]) -> None:
        self._id, self._ids = request.id, list(ids)
        self._arrays: Arrays = {}
        self._globals = GlobalGenerators(len(self._ids))
        self._doing = "make"
        try:
            self._envs = [_make(request) for _ in self._ids]
            self._names = obs_names(self._envs[0].observation_space)
            self.interface = read_interface(self._envs[0], request)
            self._cameras = EnvCameras(self._envs, request.cameras) if request.cameras else None
        except Exception as error:
            raise self._blame(error) from error
        space = self._envs[0].action_space
        self._act_shape, self._act_dtype = space.shape, space.dtype
        self._low, self._high = space.low, space.high

    def attach(self, fd: int, steps: int) -> None:
        """Switch to the memory behind a descriptor, with room for ``steps`` steps."""
        self._arrays = arrays_in(fd, shared_fields(self.interface, len(self._envs), steps))
        os.close(fd)

    def handle(self, seq: int, kind: str, arguments: Mapping[str, Any]) -> RoboRlError | None:
        """Execute "reset" (``seeds``: one per env, or None) or "rollout" (``steps``, ``frames``).

        ``steps`` is T, ``frames`` that of ``OpenLoop.rollout``.
        """
        try:
            if kind == "reset":
                self._reset(**arguments)
            else:
                self._rollout(**arguments)
            self._arrays["seq"][0] = seq
        except Exception as error:
            return self._blame(error)
        return None

    def close(self) -> None:
        """Close the envs."""
        if self._cameras:
            self._cameras.close()
        for env in self._envs:
            with suppress(Exception):
                env.close()

    def _reset(self, seeds: Sequence[int] | None) -> None:
        for i, env in enumerate(self._envs):
            self._start_episode(i, env, None if seeds is None else seeds[i])

    def _start_episode(self, i: int, env: Any, seed: int | None = None) -> None:
        self._doing = f"env {self._ids[i]}, reset"
        if seed is not None:
            self._globals.seed(i, seed)
        self._globals.begin(i, "reset")
        obs, _ = env.reset(seed=seed)
        self._globals.end(i, "reset")
        if not self._write("reset_obs", i, obs):
            raise SpecError("reset gave an observation that is not finite")
        if self._cameras:
            self._show("reset_obs", i, self._cameras.draw(i))
        self._arrays["progress"][0] += 1

    def _rollout(self, steps: int, frames: int | None) -> None:
        for i, env in enumerate(self._envs):
            if self._arrays["resting"][i]:
                self._skip(i, steps)
                continue
            self._globals.begin(i, "step")
            over = self._steps(steps, i, env, frames)
            self._globals.end(i, "step")
            if over:
                self._globals.end_episode(i)
                self._start_episode(i, env)

    def _steps(self, steps: int, i: int, env: Any, frames: int | None) -> bool:
        """Step env i until its episode ends; return whether it ended."""
        for t in range(steps):
            over = self._step(t, i, env)
            if self._cameras:
                self._draw(t, i, whole=frames != 1, last=over or t == steps - 1)
            if over:
                return True
        return False

    def _draw(self, t: int, i: int, *, whole: bool, last: bool) -> None:
        """Render env i after step t, if its image is read; a bad state shows the one before."""
        assert self._cameras is not None
        valid = bool(self._arrays["valid"][t, i])
        if valid and (whole or last):
            self._show("next_obs", (t, i), self._cameras.draw(i))
        elif not valid and t:
            self._show("next_obs", (t - 1, i), self._cameras.draw(i, before=True))
        self._cameras.keep(i)

    def _show(self, target: str, row: int | tuple[int, int], images: Mapping[str, Any]) -> None:
        for item, image in images.items():
            self._arrays[f"{target}.{item}"][row] = image

    def _skip(self, i: int, steps: int) -> None:
        """Write invalid steps of env i, which keeps its first observation."""
        arrays = self._arrays
        for name in ("rew", "success", "terminated", "truncated", "valid"):
            arrays[name][:steps, i] = 0
        for name in self.interface.obs:
            arrays[f"next_obs.{name}"][:steps, i] = arrays[f"reset_obs.{name}"][i]

    def _step(self, t: int, i: int, env: Any) -> bool:
        """Step env i; return whether its episode ended, also by a non-finite value."""
        self._doing = f"env {self._ids[i]}, step"
        arrays = self._arrays
        act = arrays["act"][i, t].astype(self._act_dtype).reshape(self._act_shape)
        act = np.minimum(np.maximum(act, self._low), self._high)
        obs, rew, terminated, truncated, info = env.step(act)
        terminated, truncated = _flag("terminated", terminated), _flag("truncated", truncated)
        rew = _number(rew)
        valid = self._write("next_obs", (t, i), obs) and abs(rew) <= _LARGEST
        arrays["rew"][t, i] = rew if valid else 0.0
        arrays["terminated"][t, i] = terminated and valid
        arrays["truncated"][t, i] = truncated or not valid
        arrays["valid"][t, i] = valid
        arrays["success"][t, i] = valid and _success(info)
        self._arrays["progress"][0] += 1
        return terminated or truncated or not valid

    def _write(self, target: str, row: int | tuple[int, int], obs: Any) -> bool:
        """Write one observation to shared memory; return whether it is finite."""
        finite = True
        parts: Mapping[str, Any] = obs if isinstance(obs, dict) else {"state": obs}
        for name, original in self._names.items():
            shape, dtype = self.interface.obs[name]
            value = np.asarray(parts[original])
            if value.ndim == 0:
                value = value.reshape(1)
            if value.shape != shape or not np.can_cast(value.dtype, dtype, "same_kind"):
                raise SpecError(
                    f"obs '{name}' does not fit the env's own observation space",
                    expected=f"{shape} {dtype}",
                    found=f"{value.shape} {value.dtype}",
                )
            stored = self._arrays[f"{target}.{name}"][row]
            with np.errstate(over="ignore"):  # float32 overflow becomes infinite; checked below
                stored[...] = value
            finite = finite and (dtype == "uint8" or bool(np.isfinite(stored).all()))
        return finite

    def _blame(self, error: Exception) -> RoboRlError:
        """Return the error as a typed one that names the env, with the traceback as a note."""
        if isinstance(error, RoboRlError):
            blame = error
        else:
            blame = PluginError(f"raised {type(error).__name__}: {error}")
        if blame.where is None:
            where = f"Gymnasium env '{self._id}', {self._doing}"
            blame = type(blame)(
                blame.problem,
                where=where,
                expected=blame.expected,
                found=blame.found,
                hint=blame.hint,
            )
        blame.add_note("".join(traceback.format_exception(error))[-_TRACEBACK_CHARS:])
        return blame


def _make(request: EnvRequest) -> Any:
    """Return one env with its ``TimeLimit``; ``_write`` replaces gymnasium's checker."""
    import gymnasium

    if request.import_module:
        importlib.import_module(request.import_module)
    try:
        return gymnasium.make(
            request.id,
            max_episode_steps=request.max_episode_steps,
            disable_env_checker=True,
            **request.kwargs,
        )
    except gymnasium.error.UnregisteredEnv as error:
        raise PluginError(
            f"no Gymnasium env is called '{request.id}'",
            found=str(error),
            hint="if a package registers it, name that package in import_module",
        ) from error


def _success(info: Mapping[str, Any]) -> bool:
    name = "success" if "success" in info else "is_success"
    return _flag(f"info['{name}']", info.get(name, False))


def _number(rew: Any) -> float:
    if isinstance(rew, Real) or (isinstance(rew, np.ndarray) and rew.ndim == 0):
        return float(rew)
    raise SpecError("the reward", expected="a number", found=repr(rew)[:80])


def _flag(what: str, value: Any) -> bool:
    try:
        return as_flag(value)
    except ValueError as error:
        raise SpecError(f"{what}: {error}", expected="True or False, or exactly 1 or 0") from None
