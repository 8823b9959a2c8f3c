"""One connection's session: makes a world, attaches memory, and steps the world."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .adapters import load_adapter
from .connection import PROTOCOL, RequestError
from .shared_arrays import MAX_ENVS, Arrays, Fields, arrays_in, layout, shared_fields
from .singles import SequentialEnvs


class WorldSession:
    """One connection's session: makes a world, attaches memory, and steps the world.

    An adapter is a Python file with one of two functions:

    - ``make_one(index, **kwargs)`` makes a single env with ``reset(seed) → obs`` (seed an int or
      None), ``step(act) → (obs, rew, terminated, truncated, metrics)`` and ``world``;
    - ``make_all(num_envs, **kwargs)`` makes a batch that resets its envs in the step that ends
      their episode. It has ``reset(seeds)`` (B of them or None), ``step(act) → dict`` and
      ``restart(ids) → obs``. The dict has ``obs``, ``next_obs``, ``rew``, ``terminated``,
      ``truncated`` and ``metrics``, arrays or dicts of arrays with B rows each.

    Both may have ``demonstrate() → act`` and ``close()``. ``world`` is a dict:

    - ``obs``: name → ``{"shape": …, "dtype": "float32" or "uint8"}``, optionally with ``unit``,
      ``frame``, ``names``, ``low``, ``high``; a name has letters, digits, _ and - only;
    - ``act``: the same keys, ``shape`` (A,), ``low`` and ``high`` the limits to which the session
      clips actions, ``reference``;
    - ``dt_s``, ``max_episode_steps``; ``metrics``: their names, ``success`` is 0 or 1;
    - ``demonstrates``: whether there is a demonstrator.
    """

    def __init__(self) -> None:
        self._batch: Any = None
        self._num_envs = 0
        self._shapes: Fields = {}
        self._arrays: Arrays = {}
        self._world_s = 0.0

    def handle(self, message: Mapping[str, Any], fd: int | None) -> dict[str, Any]:
        """Execute the command of a message; return the answer.

        Raises:
            RequestError: The command is invalid or fails.
        """
        kind, seq = message["kind"], message.get("seq")
        if kind == "memory":
            return self._attach(fd)
        if fd is not None:
            os.close(fd)
        if kind == "make":
            return self._make(message)
        if kind not in ("reset", "step", "demonstrate"):
            raise RequestError("plugin", "unknown message", found=repr(kind)[:80])
        if not self._arrays:
            raise RequestError("plugin", f"'{kind}' comes before 'make' and 'memory'")
        if type(seq) is not int or not 0 <= seq < 1 << 62:
            raise RequestError("plugin", f"'{kind}' has no number", found=repr(seq)[:80])
        self._world_s = 0.0
        getattr(self, f"_{kind}")(message)
        self._arrays["seq"][0] = seq
        return {"kind": "done", "seq": seq, "world_s": self._world_s}

    def close(self) -> None:
        """Close the world."""
        with suppress(Exception):
            getattr(self._batch, "close", lambda: None)()

    def _make(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if message.get("protocol") != PROTOCOL:
            raise RequestError(
                "plugin", "protocol mismatch", expected=PROTOCOL, found=message.get("protocol")
            )
        adapter, kwargs = message.get("adapter"), message.get("kwargs")
        num_envs, index = message.get("num_envs"), message.get("index")
        good = isinstance(adapter, str) and isinstance(kwargs, dict) and self._batch is None
        if not good or type(num_envs) is not int or type(index) is not int:
            raise RequestError("plugin", "'make' cannot be read, or has been heard already")
        if not 1 <= num_envs <= MAX_ENVS:
            raise RequestError("config", "num_envs", expected=f"1 to {MAX_ENVS}", found=num_envs)
        self._batch = _make_batch(load_adapter(str(adapter)), num_envs, index, dict(kwargs or {}))
        self._num_envs, self._shapes = num_envs, shared_fields(self._batch.world, num_envs)
        return {"kind": "made", "world": self._batch.world}

    def _attach(self, fd: int | None) -> dict[str, Any]:
        if fd is None:
            raise RequestError("plugin", "'memory' needs a descriptor")
        try:
            if not self._shapes:
                raise RequestError("plugin", "'memory' needs a world")
            size, found = layout(self._shapes)[1], os.fstat(fd).st_size
            if size != found:
                raise RequestError(
                    "spec", "memory does not fit the world", expected=size, found=found
                )
            self._arrays = arrays_in(fd, self._shapes)
        finally:
            os.close(fd)
        return {"kind": "done", "seq": 0}

    def _reset(self, message: Mapping[str, Any]) -> None:
        seeds = message.get("seeds")
        if seeds is not None and (
            not isinstance(seeds, list)
            or len(seeds) != self._num_envs
            or any(type(seed) is not int or not 0 <= seed < 1 << 31 for seed in seeds)
        ):
            raise RequestError("plugin", "seeds", expected=f"{self._num_envs} of 31 bits each")
        self._write("obs", self._asked("reset", seeds))
        self._demand_finite_obs()

    def _asked(self, what: str, *arguments: Any) -> Any:
        """Call a method of the world, and add its duration to the world's time."""
        start = time.perf_counter()
        try:
            return getattr(self._batch, what)(*arguments)
        finally:
            self._world_s += time.perf_counter() - start

    def _step(self, _: Mapping[str, Any]) -> None:
        import numpy as np

        world, act = self._batch.world, self._arrays["act"].copy()
        if world["act"].get("low"):
            act = np.clip(act, np.float32(world["act"]["low"]), np.float32(world["act"]["high"]))
        self._take(self._asked("step", act))

    def _take(self, step: dict[str, Any]) -> None:
        """Write a step; truncate rows that are not finite, and restart their envs."""
        import numpy as np

        for name in ("obs", "next_obs", "metrics"):
            self._write(name, step[name])
        for name in ("rew", "terminated", "truncated"):
            self._put(name, step[name])
        arrays, bad = self._arrays, ~np.isfinite(self._arrays["rew"])
        for name, array in arrays.items():
            if name.startswith("next_obs.") and array.dtype == np.float32:
                bad |= ~np.isfinite(array.reshape(len(array), -1)).all(1)
        arrays["valid"][...] = ~bad
        if bad.any():
            over = step["terminated"] | step["truncated"]
            arrays["rew"][bad], arrays["terminated"][bad], arrays["truncated"][bad] = 0, False, True
            for name, array in arrays.items():
                if name.startswith("metrics."):
                    array[bad] = 0
            self._restart(np.flatnonzero(bad & ~over))
        self._demand_labels()
        self._demand_finite_obs()

    def _demand_labels(self) -> None:
        """Check that the success metric of valid rows is exactly 0 or 1."""
        success = self._arrays.get("metrics.success", self._arrays["rew"][:0])
        strange = success[(success != 0) & (success != 1)]
        if len(strange):
            raise RequestError(
                "spec", "metric 'success'", expected="0 or 1, or booleans", found=strange[0]
            )

    def _restart(self, ids: Any) -> None:
        if len(ids):
            for name, value in self._asked("restart", ids).items():
                self._arrays[f"obs.{name}"][ids] = value[ids]

    def _demand_finite_obs(self) -> None:
        """Check that observations are finite; a first observation cannot be truncated."""
        import numpy as np

        for name, array in self._arrays.items():
            if (
                name.startswith("obs.")
                and array.dtype == np.float32
                and not np.isfinite(array).all()
            ):
                raise RequestError("spec", f"an episode begins with a '{name[4:]}' not finite")

    def _demonstrate(self, _: Mapping[str, Any]) -> None:
        if not self._batch.world["demonstrates"]:
            raise RequestError("plugin", "the adapter has no demonstrator for this world")
        self._put("demonstration", self._asked("demonstrate"))

    def _write(self, kind: str, values: Mapping[str, Any]) -> None:
        expected = {name for name in self._arrays if name.startswith(f"{kind}.")}
        if {f"{kind}.{name}" for name in values} != expected:
            raise RequestError(
                "spec", f"{kind} has other names", expected=expected, found=set(values)
            )
        for name, value in values.items():
            self._put(f"{kind}.{name}", value)

    def _put(self, name: str, value: Any) -> None:
        """Copy a value to shared memory; check its shape and that only precision is lost."""
        import numpy as np

        array, value = self._arrays[name], np.asarray(value)
        if value.shape != array.shape or not np.can_cast(value.dtype, array.dtype, "same_kind"):
            raise RequestError(
                "spec",
                f"'{name}' does not fit what the adapter said of it",
                expected=f"{array.shape} {array.dtype}",
                found=f"{value.shape} {value.dtype}",
            )
        with np.errstate(over="ignore"):  # float32 overflow becomes infinite; checked later
            array[...] = value


def _make_batch(adapter: Any, num_envs: int, index: int, kwargs: dict[str, Any]) -> Any:
    if hasattr(adapter, "make_all"):
        return adapter.make_all(num_envs, **kwargs)
    return SequentialEnvs([adapter.make_one(index + i, **kwargs) for i in range(num_envs)])
