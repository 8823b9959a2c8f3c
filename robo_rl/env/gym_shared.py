"""What a training process and its Gymnasium workers share: an interface and a memory segment.

Shapes: B envs, T steps of an open-loop sequence (at most ``capacity``), A act_dim, W workers.
Imports neither torch nor gymnasium, so that a worker starts fast.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from robo_rl.env.serve.server import Fields, arrays_in, layout
from robo_rl.errors import DeviceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """The layout of a segment, for a worker that knows its env's interface."""

    num_envs: int
    num_workers: int
    capacity: int


class Segment:
    """Named arrays in one piece of shared memory, in ``arrays``.

    The memory has no name: a worker gets its file descriptor, and it is gone with the last process
    that holds it, however that ends.

    ``act`` (B, T, A); ``next_obs.<name>`` (T, B, …), the true successors; ``reset_obs.<name>`` (B,
    …), the first observation of an env's newest episode; ``rew``, ``success``, ``terminated``,
    ``truncated``, ``valid`` (T, B); ``progress`` (W,), which a worker counts up with every env step
    and reset.

    Args:
        interface: Of the envs.
        key: Sizes.
        fd: File descriptor of the memory, now the segment's own; None makes new memory, zeroed.

    Raises:
        DeviceError: There is not enough memory.
    """

    def __init__(self, interface: Interface, key: SegmentKey, fd: int | None = None) -> None:
        fields = _fields(interface, key)
        self.key = key
        self.fd = allocate(layout(fields)[1]) if fd is None else fd
        self.arrays: dict[str, NDArray[Any]] = arrays_in(self.fd, fields)

    def close(self) -> None:
        """Let go of the memory; what still holds one of its arrays may go on to use it."""
        self.arrays.clear()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


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


def allocate(size: int) -> int:
    """Descriptor of new memory; all of it is claimed at once, as running out later is a SIGBUS."""
    try:
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("robo-rl-envs")
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
    except OSError as error:
        raise DeviceError(
            f"no shared memory for the envs: {error.strerror}",
            expected=f"{size / 2**20:.0f} MiB",
            hint="use fewer envs or shorter chunks",
        ) from error
    return fd
