"""The interface and the memory that a training process shares with its Gymnasium workers.

Shapes: B envs of one worker, T the most steps of an open-loop sequence, A act_dim.
Imports neither torch nor gymnasium, so that a worker starts fast.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from robo_rl.api.cameras import CameraView
from robo_rl.core.errors import DeviceError
from robo_rl.env.serve.shared_arrays import Arrays, Fields, arrays_in, layout


@dataclass(frozen=True)
class EnvRequest:
    """The env of a worker: arguments of ``gymnasium.make``, a module to import first, cameras."""

    id: str
    kwargs: dict[str, Any]
    max_episode_steps: int | None
    import_module: str
    cameras: tuple[CameraView, ...] = ()


@dataclass(frozen=True)
class EnvInterface:
    """The interface of a made env.

    Args:
        obs: Name → shape and dtype in shared memory.
        obs_limits: Name → low and high of the last axis, empty where a limit is infinite; vectors
            only.
        act_dim: A.
        act_low: (A,), empty where a limit is infinite.
        act_high: (A,), empty where a limit is infinite.
        dt_s: Seconds per step.
        max_episode_steps: Steps after which an episode is truncated.
    """

    obs: Fields
    obs_limits: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]
    act_dim: int
    act_low: tuple[float, ...]
    act_high: tuple[float, ...]
    dt_s: float
    max_episode_steps: int


def shared_fields(interface: EnvInterface, envs: int, steps: int) -> Fields:
    """Return name → (shape, dtype) of all arrays that a worker of so many envs shares.

    ``act`` (B, T, A); ``resting`` (B,), whether an env is not stepped; ``next_obs.<name>`` (T, B,
    …), the true successors; ``reset_obs.<name>`` (B, …), the first observation of an env's newest
    episode; ``rew``, ``success``, ``terminated``, ``truncated``, ``valid`` (T, B); ``progress``
    (1,), which the worker increments with every env step and reset; ``seq`` (1,), the number of the
    command that wrote all others.
    """
    found: Fields = {"act": ((envs, steps, interface.act_dim), "float32")}
    found["resting"] = ((envs,), "bool")
    for name, (shape, dtype) in interface.obs.items():
        found[f"next_obs.{name}"] = ((steps, envs, *shape), dtype)
        found[f"reset_obs.{name}"] = ((envs, *shape), dtype)
    for name in ("rew", "success"):
        found[name] = ((steps, envs), "float32")
    for name in ("terminated", "truncated", "valid"):
        found[name] = ((steps, envs), "bool")
    for name in ("progress", "seq"):
        found[name] = ((1,), "int64")
    return found


def share_arrays(shapes: Fields, send: Callable[[int], object]) -> Arrays:
    """Return new zeroed arrays, in memory whose descriptor is sent to another process.

    The memory has no name: it is freed when the last process that holds it ends.

    Args:
        shapes: Name → (shape, dtype).
        send: Receives the descriptor; a dead process is detected when its answer is awaited.

    Raises:
        DeviceError: There is not enough memory.
    """
    fd = allocate(layout(shapes)[1])
    try:
        arrays = arrays_in(fd, shapes)
        with suppress(OSError):
            send(fd)
    finally:
        os.close(fd)
    return arrays


def allocate(size: int) -> int:
    """Return a descriptor of new memory, fully reserved: a later shortage would be a SIGBUS."""
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
            hint="use fewer envs, shorter chunks or smaller pictures",
        ) from error
    return fd
