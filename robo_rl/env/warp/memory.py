"""The number of worlds that fit the device memory, from the measured memory of a few worlds.

A step also uses temporary memory: the solver's Hessians, and the polytopes of the collision search.
The estimate for the Hessians equals the worlds' own memory; that for the polytopes depends on the
number of pairs that may need one.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import dataclasses
from typing import Any

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp

from robo_rl.core.errors import ConfigError, DeviceError
from robo_rl.core.memory import available_bytes
from robo_rl.env.warp.buffer_sizes import BufferSizes

_SHARE = 0.9  # of the free memory; the rest is for observations etc.
_FEW = 4, 8  # numbers of worlds that are made to measure the memory of one
# From MuJoCo Warp's collision_convex: vertices, faces and horizon of a polytope, by iterations.
_VERTEX_BYTES, _FACE_BYTES, _HORIZON_BYTES = 16, 20, 4 * 24


def bytes_per_env(model: mujoco.MjModel, sizes: BufferSizes) -> int:
    """Return the memory of one additional world, in bytes."""
    with wp.ScopedDevice("cpu"):
        few, more = (_bytes(make_data(model, num, sizes)) for num in _FEW)
    return 2 * (more - few) // (_FEW[1] - _FEW[0]) + sizes.contacts * _polytope_bytes(model)


def envs_that_fit(model: mujoco.MjModel, sizes: BufferSizes, device: torch.device) -> int:
    """Return the largest batch for the free memory of the device."""
    return int(_SHARE * free_bytes(device)) // bytes_per_env(model, sizes)


def require_memory(
    model: mujoco.MjModel, sizes: BufferSizes, num_envs: int, device: torch.device
) -> None:
    """Check that a batch fits the memory.

    Raises:
        DeviceError: The scene is too large for the memory.
    """
    fit = envs_that_fit(model, sizes, device)
    if num_envs > fit:
        each, free = bytes_per_env(model, sizes) / 2**20, free_bytes(device) / 2**30
        raise DeviceError(
            f"the scene is too large for the memory of '{device}'",
            expected=f"at most {fit} envs ({each:.2f} MiB each, {free:.1f} GiB free)",
            found=num_envs,
            hint="use fewer envs, or set contacts and constraints of the backend to less",
        )


def put_model(model: mujoco.MjModel) -> mjw.Model:
    """Return the model on Warp's current device; its solver stops at convergence.

    Raises:
        ConfigError: MuJoCo Warp does not support an element of the model.
    """
    try:
        put = mjw.put_model(model)
    except NotImplementedError as error:
        raise ConfigError(
            "mujoco_warp does not simulate this scene",
            found=str(error),
            hint="use the backend mujoco_cpu",
        ) from error
    put.opt.warn_overflow = False  # the counters report overflows
    on_cpu = wp.get_device().is_cpu  # CPU recordings support loops
    put.opt.graph_conditional = on_cpu or bool(wp.is_conditional_graph_supported())
    return put


def make_data(model: mujoco.MjModel, num_envs: int, sizes: BufferSizes) -> mjw.Data:
    """Return worlds in the model's default state, on Warp's current device."""
    return mjw.make_data(model, num_envs, nconmax=sizes.contacts, njmax=sizes.constraints)


def free_bytes(device: torch.device) -> int:
    """Return the memory that is available now, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    there = available_bytes()
    return 2**62 if there is None else there


def _bytes(record: Any) -> int:
    """Return the bytes of all arrays of a dataclass, nested ones included."""
    total = 0
    for part in dataclasses.fields(record):
        value = getattr(record, part.name)
        if isinstance(value, wp.array):
            total += value.capacity
        elif dataclasses.is_dataclass(value):
            total += _bytes(value)
    return total


def _polytope_bytes(model: mujoco.MjModel) -> int:
    turns = int(model.opt.ccd_iterations)
    return _VERTEX_BYTES * (10 + 2 * turns) + _FACE_BYTES * (6 + 5 * turns) + _HORIZON_BYTES
