"""Poses of mocap bodies; a goal places the mocap body of its name.

Shapes: n worlds that begin an episode. A pose is (x, y, z, then a quaternion, wxyz), in m.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from robo_rl.core.errors import PluginError
from robo_rl.env.mujoco_model_fields import BODY_POSES
from robo_rl.env.rendering.offscreen import mocap_markers

if TYPE_CHECKING:
    from robo_rl.api.env import Backend

_PLACING = ((3,), (4,), (7,))


def mocap_poses(
    model: Any,
    goal: Mapping[str, Tensor],
    num: int,
    fields: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Return the argument ``mocap`` of ``Backend.write``; empty for a scene without mocap bodies.

    Args:
        model: ``mujoco.MjModel`` of the scene.
        goal: Name → (n, 3) position, (n, 4) quaternion, or (n, 7) both.
        num: n.
        fields: Name → (n, …), randomised fields of these worlds.
    """
    if not model.nmocap:
        return {}
    own = {k: v for k, v in (fields or {}).items() if k in BODY_POSES}
    told, bodies = ({k: v.detach().cpu().numpy() for k, v in each.items()} for each in (goal, own))
    parts = [torch.from_numpy(part) for part in mocap_markers(model, told, num, bodies)]
    return {"mocap": torch.cat(parts, dim=-1)}


def goal_problems(model: Any, goal: Mapping[str, Tensor]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, expected, found) of goals whose shape cannot place the mocap body."""
    for body in range(model.nbody):
        value = goal.get(model.body(body).name) if model.body_mocapid[body] >= 0 else None
        if value is not None and value.shape[1:] not in _PLACING:
            expected = "(B, 3) position, (B, 4) quaternion or (B, 7) both"
            yield model.body(body).name, expected, str(tuple(value.shape))


def demand_placeable(model: Any, backend: Backend) -> None:
    """Check that the backend places mocap bodies, if the scene has any.

    Raises:
        PluginError: The scene has mocap bodies, and the backend's ``write`` takes no poses.
    """
    if model.nmocap and "mocap" not in signature(backend.write).parameters:
        raise PluginError(
            "the scene has mocap bodies, which this backend does not place",
            where=f"backend {type(backend).__name__}",
            expected="write(ids, qpos, qvel, fields, mocap)",
            hint="name another backend, or make them bodies without mocap",
        )
