"""Images of worlds that live in this process, such as those of a Gymnasium worker.

Shapes: nq positions; an image is (3, height, width) uint8. One OpenGL context and one scene serve
all worlds of a process, because a context holds all meshes and textures.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.api.cameras import CameraView
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.rendering.offscreen import draw_fast

MAX_GEOMS = 2000
"""Shapes that a scene can hold."""


class Pose(NamedTuple):
    """What an image shows of a world: positions (nq,), and poses of the mocap bodies."""

    qpos: NDArray[np.float64]
    mocap_pos: NDArray[np.float64]
    mocap_quat: NDArray[np.float64]

    @classmethod
    def of(cls, data: Any) -> Pose:
        """Return a copy of the pose of a ``mujoco.MjData``."""
        return cls(data.qpos.copy(), data.mocap_pos.copy(), data.mocap_quat.copy())


class LiveWorldRenderer:
    """Renders worlds of one kind; a world's own data stay as they are.

    Args:
        model: ``mujoco.MjModel`` of one of the worlds; the others differ in numbers alone.
        views: Cameras to render.

    Raises:
        ConfigError: The model has no such camera.
    """

    def __init__(self, model: Any, views: Sequence[CameraView]) -> None:
        import mujoco

        known = [model.camera(i).name for i in range(model.ncam)]
        for view in views:
            if view.camera not in known:
                hint = did_you_mean(view.camera, known) if known else "it has none"
                problem = f"the scene has no camera '{view.camera}'"
                raise ConfigError(problem, where="env.cameras", hint=hint)
        self._views = tuple(views)
        width, height = (max(getattr(v, side) for v in views) for side in ("width", "height"))
        draw_fast(model, width, height)
        self._gl = mujoco.GLContext(width, height)
        self._gl.make_current()
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(model, MAX_GEOMS)
        self._option, self._perturb = mujoco.MjvOption(), mujoco.MjvPerturb()
        self._data = mujoco.MjData(model)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED

    def draw(self, model: Any, pose: Pose) -> dict[str, NDArray[np.uint8]]:
        """Return item → image of the world with this ``mujoco.MjModel``, at a pose."""
        import mujoco

        data = self._data
        data.qpos[:], data.mocap_pos[:], data.mocap_quat[:] = pose
        mujoco.mj_fwdPosition(model, data)
        return {view.item: self._image(model, view) for view in self._views}

    def close(self) -> None:
        """Release the context."""
        self._context.free()
        self._gl.free()

    def _image(self, model: Any, view: CameraView) -> NDArray[np.uint8]:
        import mujoco

        self._camera.fixedcamid = model.camera(view.camera).id
        mujoco.mjv_updateScene(
            model,
            self._data,
            self._option,
            self._perturb,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        place = mujoco.MjrRect(0, 0, view.width, view.height)
        mujoco.mjr_render(place, self._scene, self._context)
        pixels = np.empty((view.height, view.width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(pixels, None, place, self._context)
        return np.flipud(pixels).transpose(2, 0, 1)  # OpenGL's first row is the lowest


class EnvCameras:
    """The cameras of some Gymnasium envs that run on MuJoCo; materials reflect nothing.

    Args:
        envs: Gymnasium envs; each has ``model`` and ``data`` of its own.
        views: Cameras to render.

    Raises:
        ConfigError: The envs do not run on MuJoCo, or lack a camera.
    """

    def __init__(self, envs: Sequence[Any], views: Sequence[CameraView]) -> None:
        self._worlds: list[Any] = [env.unwrapped for env in envs]
        if not all(hasattr(world, "model") and hasattr(world, "data") for world in self._worlds):
            raise ConfigError(
                "an env that does not run on MuJoCo has no cameras",
                where="env.cameras",
                expected="an env with model and data",
                found=type(self._worlds[0]).__name__,
            )
        for world in self._worlds:
            world.model.mat_reflectance[:] = 0.0  # a mirror renders the scene a second time
        self._renderer = LiveWorldRenderer(self._worlds[0].model, views)
        self._before = [Pose.of(world.data) for world in self._worlds]

    def keep(self, env: int) -> None:
        """Keep the pose of an env, for an image of it after the next step."""
        self._before[env] = Pose.of(self._worlds[env].data)

    def draw(self, env: int, *, before: bool = False) -> dict[str, NDArray[np.uint8]]:
        """Return item → image (3, height, width) of an env, at the pose that was kept if before."""
        world = self._worlds[env]
        pose = self._before[env] if before else Pose.of(world.data)
        return self._renderer.draw(world.model, pose)

    def close(self) -> None:
        """Release the renderer."""
        self._renderer.close()
