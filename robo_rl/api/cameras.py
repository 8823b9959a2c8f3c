"""The cameras of an env: their images, the randomisation of their poses, the rendering processes.

Images are (3, height, width) uint8 in the order red, green, blue; the first row is the top one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, NamedTuple

from pydantic import (
    Field,
    model_validator,
)

from robo_rl.config.models import ConfigModel, OmitsDefaults
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ObsSpec, TensorSpec

Side = Annotated[int, Field(ge=8, le=4096)]
"""Image side in pixels; a side of 3 would be ambiguous with the channel axis."""


class CameraView(NamedTuple):
    """A camera, its item of the observation, and the image size in pixels."""

    camera: str
    item: str
    width: int
    height: int


class CameraJitter(ConfigModel):
    """Ranges of the camera randomisation, drawn uniformly per world at each reset.

    Args:
        pos_m: Largest offset along each axis of the body that carries the camera.
        rotation_deg: Largest rotation about each axis of the camera.
        fovy_deg: Largest change of the vertical field of view.
    """

    pos_m: float = Field(default=0.0, ge=0.0)
    rotation_deg: float = Field(default=0.0, ge=0.0, le=180.0)
    fovy_deg: float = Field(default=0.0, ge=0.0, le=90.0)

    @property
    def is_active(self) -> bool:
        """Return whether any range is non-zero."""
        return bool(self.pos_m or self.rotation_deg or self.fovy_deg)


class LightJitter(ConfigModel):
    """Ranges of the light randomisation, for every light of the scene except the headlight.

    Args:
        pos_m: Largest offset along each axis of the body that carries the light.
        rotation_deg: Largest rotation about each axis of that body.
        intensity: Range of the factor on the diffuse and specular colours of the light.
    """

    pos_m: float = Field(default=0.0, ge=0.0)
    rotation_deg: float = Field(default=0.0, ge=0.0, le=180.0)
    intensity: tuple[float, float] = (1.0, 1.0)

    @model_validator(mode="after")
    def _range_rises(self) -> LightJitter:
        if not 0.0 <= self.intensity[0] <= self.intensity[1]:
            raise ValueError(f"intensity {list(self.intensity)}: expected 0 <= low <= high")
        return self


class CameraItem(ConfigModel):
    """A camera of the scene that provides an item of the observation.

    Args:
        name: Name of the camera in the scene; a robot's cameras are defined in ``robot.yaml``.
        obs: Name of the item; ``<name>_rgb`` where empty.
        width: Image width in pixels.
        height: Image height in pixels.
        jitter: Randomisation of the camera.
    """

    name: str
    obs: str = ""
    width: Side = 128
    height: Side = 128
    jitter: CameraJitter = CameraJitter()

    @property
    def item(self) -> str:
        """Return the name of the item of the observation."""
        return self.obs or f"{self.name}_rgb"

    @property
    def view(self) -> CameraView:
        """Return what a renderer is told of the camera."""
        return CameraView(self.name, self.item, self.width, self.height)

    @property
    def spec(self) -> TensorSpec:
        """Return the spec of the image, (3, height, width) uint8."""
        return TensorSpec(shape=(3, self.height, self.width), dtype="uint8")


class FixedCameras(OmitsDefaults):
    """Cameras of an env whose worlds look alike, without randomisation.

    Args:
        cameras: Cameras that provide items of the observation.
    """

    cameras: tuple[CameraItem, ...] = ()

    omitted: ClassVar[tuple[str, ...]] = ("cameras",)

    @property
    def views(self) -> tuple[CameraView, ...]:
        """Return what a renderer is told of the cameras.

        Raises:
            ConfigError: A camera has jitter, or two items of the observation would have one name.
        """
        views = dict[str, CameraView]()
        for camera in self.cameras:
            if camera.jitter.is_active:
                problem = f"camera '{camera.name}' of this env has no jitter"
                raise ConfigError(problem, where="env.cameras")
            if camera.item in views:
                raise _one_name(camera.item)
            views[camera.item] = camera.view
        return tuple(views.values())


class RenderConfig(ConfigModel):
    """The rendering processes, for backends that do not render themselves.

    Args:
        workers: Number of processes, at most the number of envs; 0 starts one per usable core.
        timeout_s: A process that has rendered no image for this long counts as lost.
        start_timeout_s: A process that has not started after this long counts as lost.
    """

    workers: int = Field(default=0, ge=0)
    timeout_s: float = Field(default=10.0, gt=0.0)
    start_timeout_s: float = Field(default=60.0, gt=0.0)

    without_effect: ClassVar[tuple[str, ...]] = ("workers", "timeout_s", "start_timeout_s")


class CameraSettings(OmitsDefaults):
    """Camera settings of an env.

    Args:
        cameras: Cameras that provide items of the observation; each is a ``CameraItem``.
        lights: Randomisation of the lights of the scene.
        rendering: The rendering processes.
    """

    cameras: tuple[CameraItem, ...] = ()
    lights: LightJitter = LightJitter()
    rendering: RenderConfig = RenderConfig()

    @model_validator(mode="after")
    def _seen_by_somebody(self) -> CameraSettings:
        if not self.cameras and self.lights != LightJitter():
            raise ValueError("lights: no camera sees them; give cameras, too")
        return self

    omitted: ClassVar[tuple[str, ...]] = ("cameras", "lights", "rendering")


def with_images(spec: ObsSpec, cameras: Iterable[CameraItem]) -> ObsSpec:
    """Return the observation spec with the images of the cameras appended.

    Raises:
        ConfigError: Two items would have one name.
    """
    items: dict[str, TensorSpec] = dict(spec.items)
    for camera in cameras:
        if camera.item in items:
            raise _one_name(camera.item)
        items[camera.item] = camera.spec
    return ObsSpec(items=items)


def _one_name(item: str) -> ConfigError:
    return ConfigError(
        f"two items of the observation are called '{item}'",
        where="cameras",
        hint="give the camera another obs",
    )
