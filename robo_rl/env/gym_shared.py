"""What a training process and its Gymnasium workers share: an interface and a memory segment.

Shapes: B envs, T steps of an open-loop sequence (at most ``capacity``), A act_dim, W workers.
Imports neither torch nor gymnasium, so that a worker starts fast.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from robo_rl.errors import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Fields = dict[str, tuple[tuple[int, ...], str]]

_ALIGN = 64


@dataclass(frozen=True)
class EnvRequest:
    """Which env a worker makes: arguments of ``gymnasium.make``, and a module to import before."""

    id: str
    kwargs: dict[str, Any]
    max_episode_steps: int | None
    import_module: str


@dataclass(frozen=True)
class Interface:
    """What a made env turned out to be.

    Args:
        obs: Name → shape and dtype, as they lie in shared memory.
        obs_limits: Name → low and high of the last axis, empty where a limit is infinite; vectors
            only.
        act_dim: A.
        act_low: (A,), empty where a limit is infinite; act_high: likewise.
        dt_s: Seconds a step.
        max_episode_steps: Steps after which an episode is truncated.
    """

    obs: Fields
    obs_limits: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]
    act_dim: int
    act_low: tuple[float, ...]
    act_high: tuple[float, ...]
    dt_s: float
    max_episode_steps: int


class SegmentKey(NamedTuple):
    """How a worker that knows its env's interface finds a segment and its layout."""

    name: str
    num_envs: int
    num_workers: int
    capacity: int


class Segment:
    """Named arrays in one shared memory segment, in ``arrays``.

    ``act`` (B, T, A); ``next_obs.<name>`` (T, B, …), the true successors; ``reset_obs.<name>`` (B,
    …), the first observation of an env's newest episode; ``rew``, ``success``, ``terminated``,
    ``truncated``, ``valid`` (T, B); ``progress`` (W,), which a worker counts up with every env step
    and reset.
    """

    def __init__(self, interface: Interface, key: SegmentKey, memory: SharedMemory) -> None:
        self.key = key
        self._memory = memory
        self.arrays: dict[str, NDArray[Any]] = {}
        for name, (shape, dtype, offset) in _layout(_fields(interface, key))[0].items():
            self.arrays[name] = np.ndarray(shape, dtype, buffer=memory.buf, offset=offset)

    @classmethod
    def create(
        cls, interface: Interface, num_envs: int, num_workers: int, capacity: int
    ) -> Segment:
        """A new segment, zeroed.

        Raises:
            DeviceError: Shared memory has not enough room.
        """
        key = SegmentKey("", num_envs, num_workers, capacity)
        size = _layout(_fields(interface, key))[1]
        _check_room(size)
        memory = SharedMemory(create=True, size=size)
        return cls(interface, key._replace(name=memory.name), memory)

    @classmethod
    def attach(cls, interface: Interface, key: SegmentKey) -> Segment:
        """The segment that another process created."""
        return cls(interface, key, SharedMemory(name=key.name))

    def close(self, *, unlink: bool) -> None:
        """Let go of the memory; ``unlink`` also takes its name away, which only its creator may."""
        self.arrays.clear()
        if unlink:
            with suppress(FileNotFoundError):
                self._memory.unlink()
        with suppress(BufferError):  # a traceback may still hold a view; it goes when that goes
            self._memory.close()


def _fields(interface: Interface, key: SegmentKey) -> Fields:
    steps, envs = key.capacity, key.num_envs
    fields: Fields = {"act": ((envs, steps, interface.act_dim), "float32")}
    for name, (shape, dtype) in interface.obs.items():
        fields[f"next_obs.{name}"] = ((steps, envs, *shape), dtype)
        fields[f"reset_obs.{name}"] = ((envs, *shape), dtype)
    for name in ("rew", "success"):
        fields[name] = ((steps, envs), "float32")
    for name in ("terminated", "truncated", "valid"):
        fields[name] = ((steps, envs), "bool")
    fields["progress"] = ((key.num_workers,), "int64")
    return fields


def _layout(fields: Fields) -> tuple[dict[str, tuple[tuple[int, ...], str, int]], int]:
    """Name → (shape, dtype, offset in bytes), and the size of the whole in bytes."""
    placed: dict[str, tuple[tuple[int, ...], str, int]] = {}
    offset = 0
    for name, (shape, dtype) in fields.items():
        placed[name] = (shape, dtype, offset)
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offset += -(-size // _ALIGN) * _ALIGN
    return placed, offset


def _check_room(size: int) -> None:
    """Writing to an overfull /dev/shm kills the process with SIGBUS, so ask before."""
    mount = Path("/dev/shm")
    if not mount.is_dir() or size <= (free := shutil.disk_usage(mount).free):
        return
    raise DeviceError(
        "not enough shared memory for the envs",
        where=mount,
        expected=f"{size / 2**20:.0f} MiB",
        found=f"{free / 2**20:.0f} MiB free",
        hint="use fewer envs or shorter chunks, or give the container more with --shm-size",
    )
