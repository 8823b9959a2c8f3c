"""The arrays that a run and a simulator's interpreter share, and their layout.

Shapes: B envs, A act_dim. The run creates the memory and sends its descriptor.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from typing import Any

from .connection import RequestError

MAX_ENVS = 1 << 20
MAX_ELEMENTS = 1 << 36
_ALIGN = 64
_ACTS = ("act", "demonstration")
_DTYPES = ("float32", "uint8", "bool", "int64")

Fields = dict[str, tuple[tuple[int, ...], str]]
Arrays = dict[str, Any]


def shared_fields(world: Mapping[str, Any], num_envs: int) -> Fields:
    """Return name → (shape, dtype) of all shared arrays.

    ``act`` and ``demonstration`` (B, A); ``obs.<name>`` and ``next_obs.<name>`` (B, …); ``rew``,
    ``terminated``, ``truncated``, ``valid``, ``metrics.<name>`` (B,); ``seq`` (1,), the number of
    the command that wrote all others.

    Raises:
        RequestError: The world's description is invalid.
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
    """Return name → (shape, dtype, offset in bytes), and the total size in bytes."""
    import numpy as np

    placed: dict[str, tuple[tuple[int, ...], str, int]] = {}
    offset = 0
    for name, (shape, dtype) in shapes.items():
        placed[name] = (shape, dtype, offset)
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offset += -(-size // _ALIGN) * _ALIGN
    return placed, offset


def arrays_in(fd: int, shapes: Fields) -> Arrays:
    """Return name → array in the memory of a descriptor, which may be closed afterwards."""
    import numpy as np

    places, size = layout(shapes)
    memory = mmap.mmap(fd, size)
    return {
        name: np.ndarray(shape, dtype, buffer=memory, offset=offset)
        for name, (shape, dtype, offset) in places.items()
    }
