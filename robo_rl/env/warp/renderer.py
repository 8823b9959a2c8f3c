"""Images from MuJoCo Warp's ray tracer, on the device of the physics; on a CPU for tests.

Shapes: B worlds, n rendered ones, nq positions. The renderer has worlds of its own, which only hold
positions, so that it never changes the physics. It renders all B at every call and returns the
first n.

It renders no shadows, no transparency and no sites, so its images are close to OpenGL's, not equal.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import mujoco
import mujoco_warp as mjw
import torch
import warp as wp
from torch import Tensor

from robo_rl.api.cameras import CameraItem
from robo_rl.api.renderer import MOCAP, Pending, Pictures
from robo_rl.core.errors import ConfigError, DeviceError
from robo_rl.env.warp.buffer_sizes import BufferSizes
from robo_rl.env.warp.device import quiet_warp
from robo_rl.env.warp.graph_capture import GraphLauncher
from robo_rl.env.warp.memory import make_data, put_model

_NONE = BufferSizes(1, 1)  # buffer sizes of worlds without contacts


class WarpRenderer:
    """A ``Renderer`` on Warp's device.

    Args:
        model: ``mujoco.MjModel`` of the worlds.
        cameras: Cameras to render.
        num_envs: B.
        looks: Names of the looks that differ by world.
        device: Device of worlds and images.

    Raises:
        ConfigError: A camera is named twice, or MuJoCo Warp does not support the scene.
    """

    def __init__(
        self,
        model: Any,
        cameras: Sequence[CameraItem],
        num_envs: int,
        looks: Sequence[str],
        device: torch.device,
    ) -> None:
        # Warp uses the order of the model.
        self._cameras = sorted(cameras, key=lambda each: model.camera(each.name).id)
        _demand_once(self._cameras)
        self._launcher = GraphLauncher(device, f"mujoco_warp's renderer on {device}")
        with quiet_warp(), wp.ScopedDevice(wp.device_from_torch(device)):
            self._model = put_model(model)
            self._data = make_data(model, num_envs, _NONE)
            owns = {name: _own(self._home(name), name, num_envs) for name in looks}
            self._context = _context(model, self._cameras, num_envs)
            wp.synchronize_device()  # torch writes there next, on its own stream
        self._looks = owns
        self._qpos = wp.to_torch(self._data.qpos)
        self._closed = False

    def start(self, qpos: Tensor, looks: Mapping[str, Tensor]) -> Pending:
        """Render n worlds at qpos (n, nq); see ``Renderer``. On a GPU this is asynchronous.

        Raises:
            DeviceError: The renderer is closed.
        """
        if self._closed:
            raise DeviceError("what draws pictures is closed", hint="make a new env")
        num = len(qpos)
        self._qpos[:num] = qpos.to(self._qpos)
        for name, value in looks.items():
            self._looks[name][:num] = value.to(self._looks[name])
        self._launcher.run("draw", self._draw)
        pictures = self._pictures(num)
        return lambda: pictures

    def close(self) -> None:
        """Release the memory."""
        if not self._closed:
            del self._context, self._data, self._model, self._looks, self._qpos, self._launcher
            self._closed = True

    def _draw(self) -> None:
        mjw.fwd_kinematics(self._model, self._data)
        mjw.refit_bvh(self._model, self._data, self._context)
        mjw.render(self._model, self._data, self._context)

    def _home(self, name: str) -> Any:
        return self._data if name in MOCAP else self._model

    def _pictures(self, num: int) -> Pictures:
        """Return copies of the first n images; Warp's channels are blue, green, red, 255."""
        pixels = wp.to_torch(self._context.rgb_data).view(torch.uint8)[:num]
        pixels = pixels.view(num, -1, 4)
        ends = accumulate((each.width * each.height for each in self._cameras), initial=0)
        pictures: Pictures = {}
        for each, (begin, end) in zip(self._cameras, pairwise(ends), strict=True):
            image = pixels[:, begin:end].view(num, each.height, each.width, 4)
            pictures[each.item] = image[..., [2, 1, 0]].permute(0, 3, 1, 2).contiguous()
        return pictures


def _context(model: mujoco.MjModel, cameras: Sequence[CameraItem], num_envs: int) -> Any:
    used = {each.name for each in cameras}
    return mjw.create_render_context(
        model,
        nworld=num_envs,
        cam_res=[(each.width, each.height) for each in cameras],
        cam_active=[model.camera(i).name in used for i in range(model.ncam)],
        render_rgb=True,
        render_depth=False,
        render_seg=False,
        background_color=(0.0, 0.0, 0.0, 1.0),
        render_skybox=True,
        use_precomputed_rays=all(not each.jitter.fovy_deg for each in cameras),
    )


def _own(home: Any, name: str, num_envs: int) -> Tensor:
    """Return the named array with one row per world, as a tensor over Warp's memory."""
    one = getattr(home, name)
    if one.shape[0] != num_envs:
        many = wp.empty((num_envs, *one.shape[1:]), dtype=one.dtype, device=one.device)
        wp.to_torch(many)[...] = wp.to_torch(one)
        many._is_batched = True  # put_model sets the same flag
        setattr(home, name, many)
    return wp.to_torch(getattr(home, name))


def _demand_once(cameras: Sequence[CameraItem]) -> None:
    for one, other in pairwise(cameras):
        if one.name == other.name:
            raise ConfigError(
                f"mujoco_warp draws camera '{one.name}' once only",
                where="cameras",
                hint="name it once, or use the backend mujoco_cpu",
            )
