"""Sizes of the contact and constraint buffers of a world, found by simulation.

MuJoCo Warp uses fixed sizes. Too small buffers lose contacts; too large ones cost memory and time
in every step. The C engine therefore simulates the task's start states under random controls, and
the observed maxima are doubled. Sizes are rounded up to a few values, because kernels are compiled
for each size.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEPS, _HOLD = 300, 30  # physics steps of a probe, and steps for which a control is held
_ROOM = 2
_SIZES = (16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_FEW_PAIRS = 96


class BufferSizes(NamedTuple):
    """Buffer sizes per world: contacts (an average, shared) and constraint rows (per world)."""

    contacts: int
    constraints: int


def probed_sizes(
    model: mujoco.MjModel, qpos: Array, qvel: Array, mocap: Array | None = None
) -> BufferSizes:
    """Return the sizes for random controls from states (n, nq), (n, nv), with a margin.

    ``mocap`` (n, nmocap, 7) are the poses of the mocap bodies, if given. The default state is
    tried too, because diverged worlds are parked there.
    """
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    most = np.array([0, 0])
    mujoco.mj_forward(model, data)
    most = np.maximum(most, (data.ncon, data.nefc))
    for start in range(len(qpos)):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = qpos[start], qvel[start]
        if mocap is not None:
            data.mocap_pos[:], data.mocap_quat[:] = mocap[start, :, :3], mocap[start, :, 3:]
        for step in range(_STEPS):
            if step % _HOLD == 0:
                data.ctrl[:] = _random_ctrl(model, rng)
            mujoco.mj_step(model, data)
            most = np.maximum(most, (data.ncon, data.nefc))
    contacts, constraints = (int(count) * _ROOM for count in most)
    return BufferSizes(round_up_size(max(contacts, few_pairs(model))), round_up_size(constraints))


def round_up_size(count: int) -> int:
    """Return the smallest of the fixed sizes that holds count."""
    return next((size for size in _SIZES if size >= count), -(-count // 1024) * 1024)


def few_pairs(model: mujoco.MjModel) -> int:
    """Return the number of geom pairs that may touch, if it is small.

    With smaller contact buffers, more pairs may be near than fit, and MuJoCo Warp then reads beyond
    its memory instead of dropping them. Scenes with more pairs rely on the average number of near
    pairs per world staying below the contact buffer size.
    """
    kind, affinity = model.geom_contype, model.geom_conaffinity
    meets = (kind[:, None] & affinity) | (kind & affinity[:, None])
    apart = model.geom_bodyid[:, None] != model.geom_bodyid
    pairs = int(np.triu(meets.astype(bool) & apart, 1).sum()) + model.npair
    return min(pairs, _FEW_PAIRS)


def _random_ctrl(model: mujoco.MjModel, rng: np.random.Generator) -> Array:
    """Draw uniformly within the actuators' ranges, standard normal where there are none."""
    low, high = model.actuator_ctrlrange.T
    limited = model.actuator_ctrllimited.astype(bool)
    return np.where(limited, rng.uniform(low, high), rng.standard_normal(model.nu))
