"""Model fields that differ by world, on the device, as domain randomisation writes them.

MuJoCo Warp reads row ``world % rows`` of a model field. A field with one row is shared by all
worlds; a field with B rows has one per world. The first write to a field gives it its B rows.

Shapes: B worlds, n written ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mujoco_warp as mjw
import warp as wp
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.mujoco_model_fields import DERIVING, FIELDS

# Fields that set_const computes from those in DERIVING.
_DERIVED = (
    *("body_subtreemass", "body_invweight0", "dof_invweight0", "tendon_length0"),
    *("tendon_invweight0", "tendon_lengthspring", "actuator_acc0", "eq_data"),
    *("cam_pos0", "cam_poscom0", "cam_mat0", "light_pos0", "light_poscom0", "light_dir0"),
    "meaninertia",
)
# Poses of shapes and bodies; for elements fixed to the world they are computed only once.
_POSES = ("geom_pos", "geom_quat", "body_pos", "body_quat")


class PerEnvFields:
    """Per-world values of the fields of a Warp model.

    Args:
        model: The Warp model; this class replaces its arrays by longer ones.
        num_envs: B.
        replaced: Called after an array was replaced.
        constants: Computes the derived fields of all worlds.
    """

    def __init__(
        self,
        model: mjw.Model,
        num_envs: int,
        replaced: Callable[[], None],
        constants: Callable[[], None],
    ) -> None:
        self._model, self._num_envs = model, num_envs
        self._replaced, self._constants = replaced, constants
        self._base: dict[str, Tensor] = {}
        self._rows: dict[str, Tensor] = {}
        self._static = _static_rows(model)

    @property
    def fields(self) -> dict[str, Tensor]:
        """Return name → (B, …) of all per-world fields, derived ones included."""
        return self._rows

    def write(self, rows: Tensor, fields: Mapping[str, Tensor]) -> None:
        """Set fields, name → (n, …), of the worlds rows (n,), and the fields derived from them.

        Raises:
            ConfigError: A field cannot differ by world, or moves an element fixed to the world.
        """
        for name, value in fields.items():
            self._check(name, value)
        for name, value in fields.items():
            own = self._own(name)
            own[rows] = value.to(own).view(len(rows), *own.shape[1:])
        if any(name in DERIVING for name in fields):
            self._derive(rows)

    def reset(self, fields: Mapping[str, Tensor]) -> None:
        """Restore the model's values, then set fields, name → (B, …), from ``fields``."""
        for name, own in self._rows.items():
            own[...] = self._base[name]
        for name, value in fields.items():
            self._own(name).copy_(value)

    def _derive(self, rows: Tensor) -> None:
        """Recompute the constants of the worlds rows (n,); other worlds keep theirs exactly."""
        owns = [self._own(name) for name in _DERIVED if self._get(name).size]
        kept = [own.clone() for own in owns]
        self._constants()
        for own, old in zip(owns, kept, strict=True):
            new = own[rows]
            own.copy_(old)
            own[rows] = new

    def _own(self, name: str) -> Tensor:
        """Return the field with one row per world, (B, …)."""
        if name not in self._rows:
            one = self._get(name)
            self._base[name] = wp.to_torch(one).clone()
            shape = (self._num_envs, *one.shape[1:])
            many = wp.empty(shape, dtype=one.dtype, device=one.device)
            wp.synchronize_device(one.device)  # torch writes there next, on its own stream
            self._rows[name] = wp.to_torch(many)
            self._rows[name][...] = self._base[name]
            self._set(name, many)
            self._replaced()
        return self._rows[name]

    def _get(self, name: str) -> Any:
        return getattr(self._home(name), name)

    def _set(self, name: str, array: Any) -> None:
        array._is_batched = True  # put_model sets the same flag
        setattr(self._home(name), name, array)

    def _home(self, name: str) -> Any:
        return self._model.stat if name == "meaninertia" else self._model

    def _check(self, name: str, value: Tensor) -> None:
        known = FIELDS
        if name not in known:
            raise ConfigError(
                f"mujoco_warp cannot let '{name}' differ by world", hint=did_you_mean(name, known)
            )
        if name not in _POSES:
            return
        fixed = self._static[name.partition("_")[0]]
        base = self._base[name] if name in self._base else wp.to_torch(self._get(name))
        moved = (value.to(base)[:, fixed] - base[:, fixed]).abs() > 1e-6
        if bool(moved.any()):
            raise ConfigError(
                f"mujoco_warp cannot move what is fixed to the world by '{name}'",
                hint="give the body a mocap or a joint, or use the backend mujoco_cpu",
            )


def _static_rows(model: mjw.Model) -> dict[str, Tensor]:
    """Return which bodies and geoms are fixed to the world: (nbody,), (ngeom,) bool."""
    weld, root, mocap = (
        wp.to_torch(array).long()
        for array in (model.body_weldid, model.body_rootid, model.body_mocapid)
    )
    body = (weld == 0) & (mocap[root] == -1)
    return {"body": body, "geom": body[wp.to_torch(model.geom_bodyid).long()]}
