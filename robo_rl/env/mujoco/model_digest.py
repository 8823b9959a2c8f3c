"""Digests of a compiled MuJoCo model: its content and its physics options."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from robo_rl.core.errors import ConfigError

_DIGITS, _DECIMALS = 12, 12
_STRUCTS = ("opt", "stat", "vis")
# Derived values and file paths, which may differ between machines.
_LEFT_OUT = re.compile(r"bvh|_oct|^oct_|^mesh_(graph|poly)|path|^signature$")


class ModelDigest(NamedTuple):
    """Digests of bodies, shapes, assets, actuators, sensors, cameras; and of MuJoCo's options."""

    scene: str
    physics: str


def model_digest(spec: Any) -> ModelDigest:
    """Compile a ``mujoco.MjSpec`` and return the digests of its numbers.

    Numbers that MuJoCo computes count to single precision, because machines differ in the last
    bits. Options count exactly.

    Raises:
        ConfigError: It does not compile.
    """
    try:
        model = spec.compile()
    except ValueError as error:
        raise ConfigError(f"the scene does not compile: {error}") from error
    scene, physics = hashlib.sha256(model.names), hashlib.sha256()
    for name, value in _numbers(model):
        option = name.startswith("opt.")
        into = physics if option else scene
        into.update(f"{name} {value.shape}\n".encode())
        into.update(_bytes(value if option else _rounded(value)))
    return ModelDigest(scene.hexdigest()[:_DIGITS], physics.hexdigest()[:_DIGITS])


def _numbers(of: Any, prefix: str = "") -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield name and value of every array of a model, and of every number in its structs."""
    for name in sorted(dir(of)):
        if name.startswith("_") or _LEFT_OUT.search(name):
            continue
        value = getattr(of, name)
        if isinstance(value, np.ndarray) or (prefix and isinstance(value, int | float)):
            yield f"{prefix}{name}", np.asarray(value)
        elif name in _STRUCTS or (prefix and not callable(value)):
            yield from _numbers(value, f"{prefix}{name}.")


def _rounded(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.dtype.kind != "f":
        return value
    with np.errstate(over="ignore"):
        return (np.round(value.astype(np.float64), _DECIMALS) + 0.0).astype(np.float32)


def _bytes(value: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"))).tobytes()
