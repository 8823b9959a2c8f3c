"""The whole state of Warp worlds, as torch tensors over Warp's own memory.

Shapes: B worlds, n reset ones.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from robo_rl.core.errors import CheckpointError

# MuJoCo's integration state, and the sensors, which lag it.
_STATE = (
    *("qpos", "qvel", "act", "history", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied"),
    *("eq_active", "mocap_pos", "mocap_quat", "userdata", "time", "sensordata"),
    *("tree_asleep", "tree_awake", "body_awake"),
)
# Not one row per world, even if the length equals B.
_SHARED = ("nacon", "ncollision", "ctol", "cls_tol", "cdof_tri_row", "cdof_tri_col")
_CONSTRAINT_BITS = 0b11  # of MuJoCo Warp's overflow mask; the other bits are about contacts


class WorldState:
    """The state of B worlds.

    Args:
        data: The worlds in their initial state.
        model: Their model.

    Attributes:
        all: Name → (B, …).
        guard: The arrays that ``nan_guard`` writes: ``bad`` and ``steps`` (B,) int32, ``time_s``
            (B,) float64.
        overflow: (B,) int32, MuJoCo Warp's mask of buffer overflows.
    """

    def __init__(self, data: mjw.Data, model: mujoco.MjModel) -> None:
        device = data.qpos.device
        kinds = {"bad": wp.int32, "steps": wp.int32, "time_s": wp.float64}
        self.guard = {k: wp.zeros(data.nworld, dtype=v, device=device) for k, v in kinds.items()}
        arrays = {name: getattr(data, name) for name in _STATE} | self.guard
        self.all = {name: _tensor(array) for name, array in arrays.items()}
        if model.nhistory:
            self.all["history"][...] = torch.from_numpy(mujoco.MjData(model).history)
        self.qpos, self.qvel, self.ctrl = (self.all[k] for k in ("qpos", "qvel", "ctrl"))
        self.overflow = _tensor(data.overflow)
        self._defaults = {name: value[0].clone() for name, value in self.all.items()}
        self._rest = [(each, each[0].clone()) for each in _per_world(data)]

    def reset(self, rows: Tensor) -> None:
        """Reset worlds rows (n,) to their default state.

        For a diverged world this includes all its other memory: a NaN in an unused value persists
        after multiplication by zero.
        """
        lost = rows[self.all["bad"][rows] != 0]
        if len(lost):
            for value, default in self._rest:
                value[lost] = default
        for name, value in self.all.items():
            value[rows] = self._defaults[name]

    def place(self, rows: Tensor, mocap: Tensor) -> None:
        """Place the mocap bodies of the worlds rows (n,) at poses mocap (n, nmocap, 7)."""
        for name, part in (("mocap_pos", mocap[..., :3]), ("mocap_quat", mocap[..., 3:])):
            self.all[name][rows] = part.to(self.all[name])

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Restore all worlds from name → (B, …).

        Raises:
            CheckpointError: It is of another scene, number of worlds or backend.
        """
        expected = {name: tuple(value.shape) for name, value in self.all.items()}
        found = {name: tuple(value.shape) for name, value in snapshot.items()}
        if expected != found:
            differ = [k for k in expected | found if expected.get(k) != found.get(k)]
            raise CheckpointError(
                "snapshot of other worlds",
                expected={k: expected.get(k) for k in differ},
                found={k: found.get(k) for k in differ},
            )
        for name, value in snapshot.items():
            self.all[name].copy_(value)

    def counters(self) -> dict[str, Tensor]:
        """Return name → (B,) bool, the buffer overflows in the last control step."""
        constraints = self.overflow & _CONSTRAINT_BITS
        contacts = self.overflow & ~_CONSTRAINT_BITS
        return {"lost_contacts": contacts != 0, "lost_constraints": constraints != 0}


def _per_world(data: mjw.Data) -> Iterator[Tensor]:
    """Yield all arrays with one row per world; contacts share a buffer that each step refills."""
    for record in (data, data.efc):
        for part in dataclasses.fields(record):
            value: Any = getattr(record, part.name)
            if not isinstance(value, wp.array) or not value.size or part.name in _SHARED:
                continue
            if value.shape[0] == data.nworld:
                yield _tensor(value)


def _tensor(array: Any) -> Tensor:
    """Return a tensor over the same memory; an empty array, which has none, gets a new tensor."""
    if array.size:
        return wp.to_torch(array)
    return torch.zeros(array.shape, device=str(array.device))
