"""Cameras of a simulated robot, with the image topics of the real one.

Images are rendered in parallel with the simulation and sent one tick later, with the time of
capture. They have no noise, so a node with frozen-camera detection refuses a robot at rest (set
``cameras.frozen_timeout_s=0``). This module is not deployed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from robo_rl.api.cameras import CameraItem
from robo_rl.api.robot import Robot
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.messages.kinds import MsgType, RequiredTopicName
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.base import SENSOR, Publisher, Transport


class _PendingImages(NamedTuple):
    """Images that are being rendered, and their time of capture."""

    fetch: Callable[[], Mapping[str, Any]]
    at_s: float


class SceneCamera(ConfigModel):
    """A camera that belongs to the task's scene and not to the robot."""

    topic: RequiredTopicName
    """Topic of its images."""
    width: int = Field(default=128, ge=8)
    """Width of an image in pixels."""
    height: int = Field(default=128, ge=8)
    """Height of an image in pixels."""


class SimCameras:
    """Cameras of ``robot.yaml``, with their size and topics, and cameras of the scene.

    Args:
        cfg: See Config.
        world: World that is rendered.
        transport: Transport of the images.

    Raises:
        ConfigError: The robot has no such camera, or it has no topic.
        DeviceError: This machine cannot render.
    """

    class Config(ConfigModel):
        """Active cameras, none by default, and their rate."""

        names: tuple[str, ...] = ()
        """Names of the active cameras."""
        scene: dict[str, SceneCamera] = Field(default_factory=dict)
        """Name of a camera of the task's scene → its topic and size."""
        rate_hz: float = Field(default=20.0, gt=0.0)
        """Images per second, in Hz."""

    def __init__(self, cfg: Config, world: SimWorld, transport: Transport) -> None:
        self._world, self._period_s = world, 1.0 / cfg.rate_hz
        items = [_item(world.robot, name) for name in cfg.names]
        items += [
            CameraItem(name=name, obs=name, width=each.width, height=each.height)
            for name, each in cfg.scene.items()
        ]
        world.add_cameras(items)
        topics = {**world.robot.topics.images, **{n: c.topic for n, c in cfg.scene.items()}}
        self._publishers = {
            item.obs: transport.create_publisher(topics[item.name], MsgType.IMAGE, SENSOR)
            for item in items
        }
        self._taken: _PendingImages | None = None
        self._due_s = 0.0

    def tick(self, now_s: float) -> list[tuple[Publisher, Reading]]:
        """Start rendering if an image is due; return the previous images if they are new.

        Raises:
            DeviceError: The renderer has ended.
        """
        ready = self._fetch()
        if now_s >= self._due_s - 1e-9:
            late = now_s - self._due_s >= self._period_s  # missed images are not caught up
            self._due_s = (now_s if late else self._due_s) + self._period_s
            self._taken = _PendingImages(self._world.start_render(), now_s)
        return ready

    def _fetch(self) -> list[tuple[Publisher, Reading]]:
        """Wait for the rendered images; rendering must fit in a tick, else the simulation lags."""
        if self._taken is None:
            return []
        taken, self._taken = self._taken, None
        pictures = taken.fetch()
        return [
            (publisher, _reading(pictures[name], taken.at_s))
            for name, publisher in self._publishers.items()
        ]


def _reading(picture: Any, at_s: float) -> Reading:
    """Return the reading of an image (1, 3, H, W)."""
    image = picture[0].permute(1, 2, 0).contiguous().cpu().numpy()
    return Reading({"image": image}, (), at_s)


def _item(robot: Robot, name: str) -> CameraItem:
    cameras = {camera.name: camera for camera in robot.cameras}
    if name not in cameras:
        hint = did_you_mean(name, cameras) if cameras else "its robot.yaml has no cameras"
        raise ConfigError(f"robot '{robot.name}' has no camera '{name}'", hint=hint)
    if name not in robot.topics.images:
        hint = "robot.yaml names it in topics.images"
        raise ConfigError(f"camera '{name}' of robot '{robot.name}' has no topic", hint=hint)
    camera = cameras[name]
    return CameraItem(name=name, obs=name, width=camera.width, height=camera.height)
