"""Slices of the named sensors of a model in ``sensordata``."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import mujoco


def sensor_slices(model: mujoco.MjModel) -> dict[str, slice]:
    """Return sensor name → its slice of ``sensordata``."""
    starts, sizes = model.sensor_adr.tolist(), model.sensor_dim.tolist()
    names = [model.sensor(i).name for i in range(model.nsensor)]
    return {
        name: slice(start, start + size)
        for name, start, size in zip(names, starts, sizes, strict=True)
    }
