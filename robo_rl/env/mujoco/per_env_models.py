"""Per-world MuJoCo models, created where domain randomisation makes worlds differ.

Shapes: B worlds, n written ones.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.env.mujoco_model_fields import PLAIN

_IN_HIERARCHIES = ("body_ipos", "body_iquat", "geom_pos", "geom_quat", "geom_margin")
"""Fields that the compiler puts into the bounding volumes of bodies with several geoms.

``mj_setConst`` leaves the volumes as they are, so that contacts would be missed. A world in which
such a field differs compares all geoms of two bodies instead.
"""


class PerEnvModels:
    """B references to a base model, each replaced by a copy at the first write to its world.

    Args:
        base: The initial model of all worlds.
        num_envs: B.

    Attributes:
        all: The B models.
        fields: Name → (B, …) current values of all fields that were written.
    """

    def __init__(self, base: mujoco.MjModel, num_envs: int) -> None:
        self._base, self._scratch = base, mujoco.MjData(base)
        self.all: list[mujoco.MjModel] = [base] * num_envs
        self.fields: dict[str, NDArray[Any]] = {}

    def write(self, rows: NDArray[np.int64], fields: Mapping[str, NDArray[Any]]) -> None:
        """Set fields, name → (n, …), of the worlds rows (n,)."""
        for name, value in fields.items():
            if name not in self.fields:
                base = getattr(self._base, name)
                self.fields[name] = np.repeat(base[None], len(self.all), axis=0)
            self.fields[name][rows] = value
        for row in rows:
            if self.all[row] is self._base:
                self.all[row] = copy.copy(self._base)
            self._apply(self.all[row], {name: self.fields[name][row] for name in fields})

    def reset(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Restore the base model in every world, then set fields, name → (B, …)."""
        self.fields = {}
        self.all = [self._base] * len(self.all)
        if fields:
            self.write(np.arange(len(self.all)), fields)

    def _apply(self, model: mujoco.MjModel, fields: Mapping[str, NDArray[Any]]) -> None:
        for name, value in fields.items():
            getattr(model, name)[...] = value
        if not fields.keys() <= set(PLAIN):
            mujoco.mj_setConst(model, self._scratch)
        if not fields.keys().isdisjoint(_IN_HIERARCHIES):
            model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_MIDPHASE
