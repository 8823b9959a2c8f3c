"""The looks of the worlds: poses of cameras and lights, colours, poses of mocap bodies.

Shapes: B worlds, n of them that begin an episode. Looks are drawn for a world at each of its
resets, and are then part of its state.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from robo_rl.api.cameras import CameraSettings, LightJitter
from robo_rl.api.renderer import MOCAP
from robo_rl.core.errors import CheckpointError
from robo_rl.core.rotations import quat_mul, quat_to_matrix, rotvec_to_quat
from robo_rl.env.mujoco_model_fields import BODY_POSES, VISIBLE
from robo_rl.env.rendering.offscreen import mocap_markers

_CAMERA = ("cam_pos", "cam_quat", "cam_fovy")
_LIGHT = ("light_pos", "light_dir", "light_diffuse", "light_specular")


class Appearance:
    """The looks of B worlds; those of the model until an episode begins.

    Args:
        model: ``mujoco.MjModel`` of the worlds.
        cfg: Randomisation of cameras and lights.
        randomized: Fields of the domain randomisation; the visible ones are looks.
        num_envs: B.
        device: Device of the looks.

    Attributes:
        now: Name → (B, …).
    """

    def __init__(
        self,
        model: Any,
        cfg: CameraSettings,
        randomized: Sequence[str],
        num_envs: int,
        device: torch.device,
    ) -> None:
        self._model, self._lights = model, cfg.lights
        moving = [each for each in cfg.cameras if each.jitter.is_active]
        self._cameras = {model.camera(each.name).id: each.jitter for each in moving}
        self._randomized = [name for name in randomized if name in VISIBLE]
        names = list(self._randomized)
        names += list(_CAMERA) if self._cameras else []
        names += list(_LIGHT) if cfg.lights != LightJitter() and model.nlight else []
        self._jittered = [name for name in names if name not in VISIBLE]
        self._nominal = {k: torch.from_numpy(getattr(model, k).copy()) for k in names}
        self.now = {k: _rows(v, num_envs).to(device) for k, v in self._nominal.items()}
        if model.nmocap:
            self._show(torch.arange(num_envs, device=device), {}, num_envs)

    def restart(
        self,
        ids: Tensor,
        goal: Mapping[str, Tensor],
        fields: Mapping[str, Tensor],
        generator: torch.Generator,
        copies: int = 1,
    ) -> None:
        """Begin an episode in the worlds ids (n,).

        Args:
            ids: Indices of the worlds.
            goal: Name → (n, …), their goals.
            fields: Name → (n, …), their randomised fields.
            generator: Source of the looks, drawn once for ``copies`` consecutive worlds.
            copies: See ``generator``.
        """
        drawn = self._drawn(len(ids) // copies, generator)
        fresh = {k: v.repeat_interleave(copies, 0) for k, v in drawn.items()}
        fresh |= {k: v for k, v in fields.items() if k in self.now}
        for name, value in fresh.items():
            self.now[name][ids] = value.to(self.now[name])
        if self._model.nmocap:
            self._show(ids, goal, len(ids))

    def rows(self, ids: Tensor | None) -> dict[str, Tensor]:
        """Return name → (n, …) of the worlds ids (n,); of all where None."""
        return self.now if ids is None else {k: v[ids] for k, v in self.now.items()}

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of the looks."""
        return {name: value.clone() for name, value in self.now.items()}

    def check(self, snapshot: Mapping[str, Tensor]) -> None:
        """Check that a snapshot has all visible randomised fields.

        Raises:
            CheckpointError: It is of an env without cameras, or with other fields. Images would
                not match the simulated world.
        """
        found = [name for name in snapshot if name in VISIBLE]
        if set(found) != set(self._randomized):
            raise CheckpointError(
                "snapshot of an env in which other randomised fields were seen",
                where="looks",
                expected=sorted(self._randomized),
                found=sorted(found),
                hint="take it from an env with the same randomize, and with cameras",
            )

    def restore(self, snapshot: Mapping[str, Tensor], goal: Mapping[str, Tensor]) -> None:
        """Restore a snapshot; missing looks come from the model and the goals.

        Args:
            snapshot: From ``snapshot``; empty for an env without cameras; see ``check``.
            goal: Name → (B, …).
        """
        for name, value in self._nominal.items():
            self.now[name][...] = snapshot.get(name, value).to(self.now[name])
        if self._model.nmocap:
            num = len(self.now[MOCAP[0]])
            self._show(torch.arange(num, device=self.now[MOCAP[0]].device), goal, num)

    def _show(self, ids: Tensor, goal: Mapping[str, Tensor], num: int) -> None:
        """Place the mocap bodies of the worlds ids (n,) at their goals."""
        bodies = {k: v[ids] for k, v in self.now.items() if k in BODY_POSES}
        told, own = ({k: v.cpu().numpy() for k, v in each.items()} for each in (goal, bodies))
        stand = mocap_markers(self._model, told, num, own)
        for name, value in zip(MOCAP, map(torch.from_numpy, stand), strict=True):
            self.now.setdefault(name, value.to(ids.device, copy=True))[ids] = value.to(ids.device)

    def _drawn(self, num: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Draw cameras and lights of num worlds, name → (num, …)."""
        fields = {name: _rows(self._nominal[name], num) for name in self._jittered}
        for camera, jitter in self._cameras.items():
            fields["cam_pos"][:, camera] += _within(jitter.pos_m, (num, 3), generator)
            turn = _turned(jitter.rotation_deg, num, generator)
            fields["cam_quat"][:, camera] = quat_mul(fields["cam_quat"][:, camera], turn)
            fields["cam_fovy"][:, camera] += _within(jitter.fovy_deg, (num,), generator)
        if "light_pos" in fields:
            self._light(fields, num, generator)
        return fields

    def _light(self, fields: Mapping[str, Tensor], num: int, generator: torch.Generator) -> None:
        low, high = self._lights.intensity
        for light in range(self._model.nlight):
            fields["light_pos"][:, light] += _within(self._lights.pos_m, (num, 3), generator)
            turn = _turned(self._lights.rotation_deg, num, generator)
            fields["light_dir"][:, light] = _rotated(fields["light_dir"][:, light], turn)
            factor = low + (high - low) * torch.rand(num, 1, generator=generator)
            for name in ("light_diffuse", "light_specular"):
                fields[name][:, light] *= factor


def _rows(value: Tensor, num: int) -> Tensor:
    return value.unsqueeze(0).repeat_interleave(num, 0)


def _within(limit: float, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw uniformly within ± limit."""
    return limit * (2.0 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1.0)


def _turned(limit_deg: float, num: int, generator: torch.Generator) -> Tensor:
    """Draw quaternions (num, 4), wxyz, from rotation vectors uniform within ± limit per axis."""
    return rotvec_to_quat(_within(math.radians(limit_deg), (num, 3), generator))


def _rotated(vector: Tensor, quat: Tensor) -> Tensor:
    """Rotate vectors (n, 3) by unit quaternions (n, 4), wxyz."""
    return (quat_to_matrix(quat) @ vector[..., None])[..., 0]
