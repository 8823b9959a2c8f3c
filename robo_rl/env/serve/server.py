"""Serves simulators that cannot share our interpreter, over a Unix socket: the file they all need.

It and the adapters beside it run in the simulator's interpreter. They import the standard library,
numpy and the simulator, and nothing of robo_rl, whose ``env/remote.py`` is the other side::

    python server.py SOCKET [--log-dir DIR] [--private]

Shapes: B envs, A act_dim. Each connection is served by a process of its own, forked before anything
heavy is imported: it makes one world of B envs and dies with it. A message is a frame: its length
in 4 bytes, then a JSON object. Arrays lie in memory that the client made and whose descriptor it
sent; both ends lay it out by ``fields``. What is said, in order:

    hello ←   protocol, pid, python                     make →    adapter, kwargs, num_envs, index
    made ←    what the world is, see ``Session``        memory →  with the descriptor
    done ←                                              reset, step, demonstrate →  seq
    beat ←    twice a second while a command runs       done ←    seq, once the arrays are written
    error ←   code, problem, expected, found, hint      died ←    reason, from the parent process
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import mmap
import os
import select
import shutil
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

PROTOCOL = 1
BEAT_S = 0.5
GRACE_S = 2.0
MAX_FRAME = 1 << 20
MAX_ENVS = 1 << 20
MAX_ELEMENTS = 1 << 36
_HERE = os.path.dirname(os.path.abspath(__file__))
_HEADER = struct.Struct("!I")
_MESSAGE_S = 10.0
_ALIGN = 64
_TRACE_CHARS = 4000
_ACTS = ("act", "demonstration")
_DTYPES = ("float32", "uint8", "bool", "int64")

Fields = dict[str, tuple[tuple[int, ...], str]]
Arrays = dict[str, Any]


class RequestError(Exception):
    """What the other side is to be told.

    Args:
        code: ``plugin``, ``spec``, ``config`` or ``device``: the kind of error that it becomes.
        problem: One clause.
        details: ``expected``, ``found``, ``hint``, ``trace``, as far as there are any.
    """

    def __init__(self, code: str, problem: str, **details: Any) -> None:
        super().__init__(problem)
        self.message = {"kind": "error", "code": code, "problem": problem}
        self.message.update({name: str(text) for name, text in details.items()})


class JsonConnection:
    """One end of a connection that carries JSON objects; several threads may send.

    Args:
        sock: Connected stream socket of the Unix family; closed with the line.
        timeout_s: How long one message may take on its way once it has begun; None for ever.
    """

    max_frame = MAX_FRAME

    def __init__(self, sock: socket.socket, timeout_s: float | None = _MESSAGE_S) -> None:
        sock.settimeout(timeout_s)
        self._sock, self._timeout_s, self._lock = sock, timeout_s, threading.Lock()
        self._poll, self._room = select.poll(), select.poll()
        self._poll.register(sock, select.POLLIN)
        self._room.register(sock, select.POLLOUT)

    def send(self, message: Any, fd: int | None = None) -> None:
        """Send an object, with a file descriptor if need be.

        Raises:
            RequestError: It is too long, or not JSON.
            OSError: The other end is gone.
        """
        data = self.encode(message)
        packet = _HEADER.pack(len(data)) + data
        with self._lock:
            if fd is not None:
                packet = packet[socket.send_fds(self._sock, [packet], [fd]) :]
            self._sock.sendall(packet)

    def receive(self) -> tuple[Any, int | None]:
        """Wait for an object; the second is the descriptor that came with it, now ours to close.

        Raises:
            EOFError: The other end is gone.
            OSError: Likewise, or it stopped in mid-frame, or announced too long a one.
            RequestError: The frame holds no message; the next one may.
        """
        self._poll.poll()
        header, fds, _, _ = socket.recv_fds(self._sock, _HEADER.size, 1)
        try:
            if not header:
                raise EOFError
            (size,) = _HEADER.unpack(header + self._exactly(_HEADER.size - len(header)))
            if size > self.max_frame:
                raise OSError(f"a frame of {size} bytes")
            return self.decode(self._exactly(size)), fds.pop() if fds else None
        finally:
            for extra in fds:
                os.close(extra)

    def poll(self, timeout_s: float) -> bool:
        """Whether a message, or the news that the other end is gone, arrives in time."""
        return bool(self._poll.poll(timeout_s * 1000))

    def has_room(self) -> bool:
        """Whether a short message can be sent at once, as the other end does listen."""
        return bool(self._room.poll(0))

    def close(self) -> None:
        """Close this end; calling it twice is harmless."""
        self._sock.close()

    def encode(self, message: Any) -> bytes:
        """An object as it is sent behind its length."""
        return to_json(message)

    def decode(self, data: bytes) -> Any:
        """The object again."""
        return _from_json(data)

    def _exactly(self, size: int) -> bytes:
        data, deadline = b"", time.monotonic() + (self._timeout_s or math.inf)
        while len(data) < size:
            if time.monotonic() > deadline:
                raise OSError("a frame that does not end")
            part = self._sock.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


def to_json(message: Mapping[str, Any]) -> bytes:
    """A message as it is sent behind its length.

    Raises:
        RequestError: It is too long, or not JSON.
    """
    try:
        data = json.dumps(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError("spec", f"what is to be said is not JSON: {error}") from None
    if len(data) > MAX_FRAME:
        raise RequestError("spec", "a message is too long", expected=MAX_FRAME, found=len(data))
    return data


def _from_json(data: bytes) -> dict[str, Any]:
    try:
        message: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError("plugin", "a frame is not JSON", found=error) from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise RequestError("plugin", "a frame is no message", expected="an object with a kind")
    return message


def shared_fields(world: Mapping[str, Any], num_envs: int) -> Fields:
    """Name → (shape, dtype) of all arrays that the two ends share.

    ``act`` and ``demonstration`` (B, A); ``obs.<name>`` and ``next_obs.<name>`` (B, …); ``rew``,
    ``terminated``, ``truncated``, ``valid``, ``metrics.<name>`` (B,); ``seq`` (1,), the number of
    the command that wrote all others.

    Raises:
        RequestError: What is said of the world is no such thing.
    """
    try:
        return _fields(world, num_envs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RequestError(
            "spec", "the adapter's world cannot be read", found=repr(error)
        ) from None


def _fields(world: Mapping[str, Any], num_envs: int) -> Fields:
    found: Fields = {name: ((num_envs, *world["act"]["shape"]), "float32") for name in _ACTS}
    for name, spec in world["obs"].items():
        for kind in ("obs", "next_obs"):
            found[f"{kind}.{name}"] = ((num_envs, *spec["shape"]), spec["dtype"])
    for name in ("rew", *(f"metrics.{metric}" for metric in world["metrics"])):
        found[name] = ((num_envs,), "float32")
    for name in ("terminated", "truncated", "valid"):
        found[name] = ((num_envs,), "bool")
    found["seq"] = ((1,), "int64")
    for name, (shape, dtype) in found.items():
        if dtype not in _DTYPES or not all(type(n) is int and 0 <= n < MAX_ENVS for n in shape):
            raise ValueError(f"{name}: {shape} {dtype}")
        if math.prod(shape) > MAX_ELEMENTS:
            raise ValueError(f"{name}: {shape} is too large")
    return found


def layout(shapes: Fields) -> tuple[dict[str, tuple[tuple[int, ...], str, int]], int]:
    """Name → (shape, dtype, offset in bytes), and the size of the whole in bytes."""
    import numpy as np

    placed: dict[str, tuple[tuple[int, ...], str, int]] = {}
    offset = 0
    for name, (shape, dtype) in shapes.items():
        placed[name] = (shape, dtype, offset)
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offset += -(-size // _ALIGN) * _ALIGN
    return placed, offset


def arrays_in(fd: int, shapes: Fields) -> Arrays:
    """The arrays in the memory behind a descriptor, name → array; it may be closed afterwards."""
    import numpy as np

    places, size = layout(shapes)
    memory = mmap.mmap(fd, size)
    return {
        name: np.ndarray(shape, dtype, buffer=memory, offset=offset)
        for name, (shape, dtype, offset) in places.items()
    }


class WorldSession:
    """What is done for one connection: a world is made, given memory, and stepped.

    An adapter is a Python file with one of two functions. ``make_one(index, **kwargs)`` makes a
    single env with ``reset(seed) → obs`` (seed an int or None), ``step(act) → (obs, rew,
    terminated, truncated, metrics)`` and ``world``; ``make_all(num_envs, **kwargs)`` a batch that
    resets its envs in the step that ends their episode, with ``reset(seeds)`` (B of them or None),
    ``step(act) → dict`` of ``obs``, ``next_obs``, ``rew``, ``terminated``, ``truncated`` and
    ``metrics``, arrays or dicts of arrays with B rows each, and ``restart(ids) → obs``. Both may
    have ``demonstrate() → act`` and ``close()``. ``world`` is a dict:

    - ``obs``: name → ``{"shape": …, "dtype": "float32" or "uint8"}``, with ``unit``, ``frame``,
      ``names``, ``low``, ``high`` where they are known; a name has letters, digits, _ and - only;
    - ``act``: likewise, ``shape`` (A,), ``low`` and ``high`` the limits to which actions are
      clipped here, ``reference``;
    - ``dt_s``, ``max_episode_steps``; ``metrics``: their names, ``success`` being 0 or 1;
    - ``demonstrates``: whether there is a demonstrator.
    """

    def __init__(self) -> None:
        self._batch: Any = None
        self._num_envs = 0
        self._shapes: Fields = {}
        self._arrays: Arrays = {}
        self._world_s = 0.0

    def handle(self, message: Mapping[str, Any], fd: int | None) -> dict[str, Any]:
        """Do as a message says.

        Raises:
            RequestError: It cannot be done.
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
        """What the world answers; its time counts apart from ours."""
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
        """Write a step; rows that are not finite are cut, and their envs begin anew."""
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
        """What says success of valid rows says nothing else."""
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
        """Of an episode's start nothing can be cut."""
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
        """Copy into shared memory what has the right shape and loses nothing but precision."""
        import numpy as np

        array, value = self._arrays[name], np.asarray(value)
        if value.shape != array.shape or not np.can_cast(value.dtype, array.dtype, "same_kind"):
            raise RequestError(
                "spec",
                f"'{name}' does not fit what the adapter said of it",
                expected=f"{array.shape} {array.dtype}",
                found=f"{value.shape} {value.dtype}",
            )
        with np.errstate(over="ignore"):  # too large for float32 is infinite, and found later
            array[...] = value


class SequentialEnvs:
    """Single envs as a batch: stepped one after the other, reset where their episode ends.

    Args:
        envs: B of them, see ``Session``.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        self._envs, self.world = envs, envs[0].world

    def reset(self, seeds: Sequence[int] | None) -> dict[str, Any]:
        """Start every env anew."""
        each = seeds or [None] * len(self._envs)
        return _stack([env.reset(seed) for env, seed in zip(self._envs, each, strict=True)])

    def restart(self, ids: Any) -> dict[str, Any]:
        """Start the envs ids (n,) anew; only their rows mean anything."""
        some = {int(i): self._envs[i].reset(None) for i in ids}
        blank = next(iter(some.values()))
        return _stack([some.get(i, blank) for i in range(len(self._envs))])

    def step(self, act: Any) -> dict[str, Any]:
        """Step every env."""
        import numpy as np

        steps = [env.step(row) for env, row in zip(self._envs, act, strict=True)]
        successors, rew, terminated, truncated, metrics = zip(*steps, strict=True)
        obs = [
            env.reset(None) if over or cut else successor
            for env, successor, over, cut in zip(
                self._envs, successors, terminated, truncated, strict=True
            )
        ]
        return {
            "obs": _stack(obs),
            "next_obs": _stack(successors),
            "rew": np.array(rew, dtype=np.float64),
            "terminated": np.array(terminated, dtype=bool),
            "truncated": np.array(truncated, dtype=bool),
            "metrics": _stack(metrics),
        }

    def demonstrate(self) -> Any:
        """What each env's demonstrator does."""
        import numpy as np

        return np.stack([env.demonstrate() for env in self._envs])

    def close(self) -> None:
        """Close every env that can be."""
        for env in self._envs:
            with suppress(Exception):
                getattr(env, "close", lambda: None)()


def _stack(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import numpy as np

    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}


def flatten_obs(groups: Mapping[str, Any]) -> dict[str, Any]:
    """Torch observations as numpy copies, float32 or uint8: name → (B, …), name_term of a dict."""
    found: dict[str, Any] = {}
    for name, group in groups.items():
        terms = group.items() if isinstance(group, dict) else [("", group)]
        for term, part in terms:
            array = part.detach().cpu().numpy()
            kind = "uint8" if array.dtype == "uint8" else "float32"
            found[f"{name}_{term}" if term else name] = array.astype(kind)
    return found


def obs_specs(obs: Mapping[str, Any]) -> dict[str, Any]:
    """What ``world`` says of observations (B, …)."""
    return {
        name: {"shape": list(part.shape[1:]), "dtype": str(part.dtype)}
        for name, part in obs.items()
    }


def adapters() -> list[str]:
    """Names of the adapters that lie beside this file."""
    files = (name for name in os.listdir(_HERE) if name.endswith("_world.py"))
    return sorted(name[: -len("_world.py")] for name in files)


def load_adapter(name: str) -> Any:
    """The module behind a name, or behind the path of a Python file.

    Raises:
        RequestError: There is none, or it has no function that makes a world.
    """
    path = os.path.join(_HERE, f"{name}_world.py") if name in adapters() else name
    if not (path.endswith(".py") and os.path.isfile(path)):
        expected = f"one of {', '.join(adapters())}, or the path of a Python file"
        raise RequestError("plugin", "unknown adapter", expected=expected, found=name)
    sys.modules.setdefault("robo_rl_serve", sys.modules[__name__])  # for adapters to import
    spec: Any = importlib.util.spec_from_file_location("robo_rl_adapter", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not (hasattr(module, "make_all") or hasattr(module, "make_one")):
        raise RequestError("plugin", "the adapter has neither make_all nor make_one", found=path)
    return module


def _make_batch(adapter: Any, num_envs: int, index: int, kwargs: dict[str, Any]) -> Any:
    if hasattr(adapter, "make_all"):
        return adapter.make_all(num_envs, **kwargs)
    return SequentialEnvs([adapter.make_one(index + i, **kwargs) for i in range(num_envs)])


def error_message(error: Exception, doing: str) -> dict[str, Any]:
    """Any error as a message."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if isinstance(error, RequestError):
        return error.message
    if isinstance(error, ModuleNotFoundError):
        refusal = RequestError(
            "device", f"'{error.name}' is missing there", trace=trace[-_TRACE_CHARS:]
        )
    else:
        problem = f"{doing} raised {type(error).__name__}: {error}"[:_TRACE_CHARS]
        refusal = RequestError("plugin", problem, trace=trace[-_TRACE_CHARS:])
    return refusal.message


def serve_connection(line: JsonConnection) -> None:
    """Answer one connection until it closes."""
    session, busy = WorldSession(), threading.Event()
    line.send({"kind": "hello", "protocol": PROTOCOL, "pid": os.getpid(), "python": sys.version})
    threading.Thread(target=_beat, args=(line, busy), daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            try:
                message, fd = line.receive()
            except RequestError as refusal:
                line.send(refusal.message)
                continue
            busy.set()
            answer = _answer(session, message, fd)
            busy.clear()
            line.send(answer)
    session.close()


def _answer(session: WorldSession, message: Mapping[str, Any], fd: int | None) -> dict[str, Any]:
    """One that can be sent, whatever the simulator raises; an OSError of its is none of ours."""
    try:
        answer = session.handle(message, fd)
        to_json(answer)
    except Exception as error:
        return {**error_message(error, message["kind"]), "seq": message.get("seq")}
    return answer


def _beat(line: JsonConnection, busy: threading.Event) -> None:
    """Say that this process lives, while the other side waits for an answer.

    It may be listening to others first, for minutes while these make their worlds: what it has not
    heard yet must not fill the connection, or this thread would wait and hold up the answer.
    """
    with suppress(OSError):
        while True:
            busy.wait()
            time.sleep(BEAT_S)
            if busy.is_set() and line.has_room():
                line.send({"kind": "beat"})


class WorldServer:
    """Listens, and has a process for each connection, which it ends when the connection is.

    Args:
        path: Of the socket, which only its owner may connect to; it appears when all is ready.
        log_dir: Where each process writes what it prints, in ``PID.log``; empty for nowhere.
        private: Whether to end with whatever holds our standard input, logs and all.
    """

    def __init__(self, path: str, log_dir: str, *, private: bool) -> None:
        self._path, self._log_dir, self._private = path, log_dir, private
        self._lines: dict[int, socket.socket] = {}
        self._deadlines: dict[int, float] = {}
        self._listener = _listen(path)
        self._wake, wake = os.pipe()
        for fd in (self._wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        if private:
            self._poll.register(0, select.POLLIN)

    def run(self) -> None:
        """Until interrupted."""
        try:
            while self._turn():
                pass
        except KeyboardInterrupt:
            pass
        finally:
            if self._private:
                self._await_all()
            for pid in self._lines:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            if self._private and self._log_dir:
                shutil.rmtree(self._log_dir, ignore_errors=True)  # its owner may be dead

    def _await_all(self) -> None:
        """Until all worlds are closed, whose clients are gone, or have had time for it."""
        deadline = time.monotonic() + GRACE_S
        while self._lines and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.01)

    def _turn(self) -> bool:
        waits = [at - time.monotonic() for at in self._deadlines.values()]
        ready = dict(self._poll.poll(max(0.0, min(waits)) * 1000 if waits else None))
        if self._private and 0 in ready:
            return False
        for pid, sock in self._lines.items():  # first, as descriptors are given to new ones below
            if sock.fileno() in ready:
                self._poll.unregister(sock)
                self._deadlines[pid] = time.monotonic() + GRACE_S
        if self._wake in ready:
            os.read(self._wake, 4096)
            self._reap()
        if self._listener.fileno() in ready:
            self._accept()
        for pid, at in list(self._deadlines.items()):
            if at <= time.monotonic():
                del self._deadlines[pid]
                os.kill(pid, signal.SIGKILL)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # too many open files, or they have gone again
            return
        try:
            pid = os.fork() if _is_ours(sock) else None
        except OSError:  # too many processes
            pid = None
        if pid is None:
            sock.close()
            return
        if pid == 0:
            self._become(sock)
        self._lines[pid] = sock
        self._poll.register(sock, 0)  # tells of nothing but that the other end is gone

    def _become(self, sock: socket.socket) -> None:
        """What the new process does, from here to its end."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to handle
            self._listener.close()
            for other in self._lines.values():
                other.close()
            self._redirect()
            serve_connection(
                JsonConnection(sock, timeout_s=None)
            )  # the client may listen to others first
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _redirect(self) -> None:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        if self._log_dir:
            with open(os.path.join(self._log_dir, f"{os.getpid()}.log"), "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            out: Any = sys.stdout
            out.reconfigure(line_buffering=True)  # a crash would lose the rest

    def _reap(self) -> None:
        for pid in list(self._lines):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                sock = self._lines.pop(pid)
                if self._deadlines.pop(pid, None) is None:
                    with suppress(KeyError):
                        self._poll.unregister(sock)
                with suppress(OSError):
                    reason = exit_description(os.waitstatus_to_exitcode(status))
                    JsonConnection(sock).send({"kind": "died", "reason": reason})
                sock.close()


def _listen(path: str) -> socket.socket:
    """A socket that appears under its name when it can be connected to, for its owner alone."""
    if os.path.exists(path):
        sys.exit(f"{path} exists")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(f"{path}~")
        listener.listen()
        os.rename(f"{path}~", path)
    except OSError as error:
        sys.exit(f"cannot listen at {path}: {error}")
    finally:
        os.umask(mask)
    return listener


def _is_ours(sock: socket.socket) -> bool:
    """Whether the other end belongs to our user, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.getuid()


def exit_description(code: int) -> str:
    """How a process ended, by its exit status, or by the negative of the signal that killed it."""
    if code >= 0:
        return f"it exited with {code}"
    names = {each.value: each.name for each in signal.Signals}  # but for the real-time ones
    return f"it was killed by {names.get(-code, f'signal {-code}')}"


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("socket", help="where to listen")
    parser.add_argument("--log-dir", default="", help="folder for what the worlds print")
    parser.add_argument("--private", action="store_true", help="end when standard input does")
    args = parser.parse_args()
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    sys.argv[1:] = []  # simulators have been seen to parse them
    WorldServer(args.socket, args.log_dir, private=args.private).run()


if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036  it may be any interpreter
        sys.exit(f"needs Python 3.10 or later, and this is {sys.version.split()[0]}")
    main()
