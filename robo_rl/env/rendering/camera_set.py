"""The images of a simulated env: the looks of its worlds, and their renderer.

Shapes: B worlds, n rendered ones, nq positions; images are (n, 3, height, width) uint8.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from robo_rl.api.cameras import CameraItem, CameraSettings, LightJitter
from robo_rl.api.renderer import Pending, Renderer, RenderingBackend
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.rendering.appearance import Appearance
from robo_rl.env.rendering.pool import RenderPool


class CameraSet:
    """Cameras of B worlds.

    A ``RenderingBackend`` renders on its own device; otherwise a process pool renders with OpenGL.

    Args:
        scene: ``MjSpec`` of the worlds.
        cfg: Settings, at least one camera.
        backend: Backend of the worlds.
        num_envs: B.
        randomized: Fields of the domain randomisation.

    Raises:
        ConfigError: The scene has no such camera, the randomisation of a camera or light is not
            possible, or the backend cannot render the cameras.
        DeviceError: This machine cannot render.
    """

    def __init__(
        self,
        scene: Any,
        cfg: CameraSettings,
        backend: Any,
        num_envs: int,
        randomized: Sequence[str] = (),
    ) -> None:
        model: mujoco.MjModel = scene.compile()
        check_cameras(model, cfg.cameras)
        check_lights(model, cfg.lights)
        self.looks = Appearance(model, cfg, randomized, num_envs, backend.device)
        looks = list(self.looks.now)
        self._rest = torch.from_numpy(model.qpos0.copy()).to(backend.device)
        self._renderer: Renderer = (
            backend.renderer(model, cfg.cameras, num_envs, looks)
            if isinstance(backend, RenderingBackend)
            else RenderPool(model, cfg.cameras, num_envs, looks, cfg.rendering)
        )

    def start(self, qpos: Tensor, ids: Tensor | None = None) -> Pending:
        """Begin to render the worlds ids (n,), or all of them, at positions qpos (n, nq).

        The image of a non-finite world is black.
        """
        good = torch.isfinite(qpos).all(dim=1)
        whole = bool(good.all())
        if not whole:
            qpos = torch.where(good[:, None], qpos, self._rest.to(qpos))
        pending = self._renderer.start(qpos, self.looks.rows(ids))
        return pending if whole else lambda: _blackened(pending(), ~good)

    def close(self) -> None:
        """Release the renderer."""
        self._renderer.close()


def check_cameras(model: Any, cameras: Sequence[CameraItem]) -> None:
    """Check that a model has all cameras, and that their randomisation is possible.

    Raises:
        ConfigError: A camera is missing or cannot be randomised; the error lists the known names.
    """
    known = [model.camera(i).name for i in range(model.ncam)]
    for camera in cameras:
        if camera.name not in known:
            hint = did_you_mean(camera.name, known) if known else "it has none"
            problem = f"the scene has no camera '{camera.name}'"
            raise ConfigError(problem, where="env.cameras", hint=hint)
        _check_jitter(model, camera)
        if any(camera.jitter != each.jitter for each in cameras if each.name == camera.name):
            raise ConfigError(f"camera '{camera.name}' has two jitters", where="cameras")


def check_lights(model: Any, jitter: LightJitter) -> None:
    """Check that a model has the lights to randomise, and that moved ones do not track a target.

    Raises:
        ConfigError: It has none, or a light does.
    """
    if jitter != LightJitter() and not model.nlight:
        hint = "add a light to the MJCF, or leave lights out; the headlight is not randomised"
        raise ConfigError(
            "the scene has no lights", where="env.lights", expected="1 or more", found=0, hint=hint
        )
    follows = np.flatnonzero(model.light_mode != mujoco.mjtCamLight.mjCAMLIGHT_FIXED)
    if len(follows) and (jitter.pos_m or jitter.rotation_deg):
        name = model.light(int(follows[0])).name or f"number {follows[0]}"
        hint = "of intensity it may have some: leave out pos_m and rotation_deg"
        raise ConfigError(
            f"a light that follows something ({name}) is not moved", where="env.lights", hint=hint
        )


def _check_jitter(model: Any, camera: CameraItem) -> None:
    index, jitter = model.camera(camera.name).id, camera.jitter
    where = f"cameras: {camera.name}"
    if jitter.is_active and model.cam_mode[index] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED:
        raise ConfigError("a camera that follows something has no jitter", where=where)
    if jitter.fovy_deg and model.cam_sensorsize[index].any():
        hint = "give it a fovy in the MJCF"
        raise ConfigError("fovy_deg of a camera of a sensor's size", where=where, hint=hint)
    if jitter.fovy_deg and model.cam_projection[index] != mujoco.mjtProjection.mjPROJ_PERSPECTIVE:
        raise ConfigError("fovy_deg of an orthographic camera, which has no angle", where=where)
    fovy_deg = model.cam_fovy[index]
    most_deg = min(fovy_deg, 180.0 - fovy_deg)
    if jitter.fovy_deg and jitter.fovy_deg >= most_deg:
        expected, found = f"below {most_deg:g}", jitter.fovy_deg
        raise ConfigError("fovy_deg", where=where, expected=expected, found=found)


def _blackened(pictures: Mapping[str, Tensor], lost: Tensor) -> dict[str, Tensor]:
    for picture in pictures.values():
        picture[lost] = 0
    return dict(pictures)
