"""Which cameras an env looks through, what of their pictures is drawn by chance, and how fast.

Pictures are (3, height, width) uint8, red, green, blue, the first row the top one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ObsSpec, TensorSpec

Side = Annotated[int, Field(ge=8, le=4096)]
"""Pixels; a side of 3 could be taken for the channels'."""


class CameraJitter(ConfigModel):
    """How far a camera may be off, drawn uniformly for a world at each of its resets.

    Args:
        pos_m: Along each axis of the body that carries it, at most.
        rotation_deg: About each axis of the camera, at most.
        fovy_deg: Of the vertical field of view, at most.
    """

    pos_m: float = Field(default=0.0, ge=0.0)
    rotation_deg: float = Field(default=0.0, ge=0.0, le=180.0)
    fovy_deg: float = Field(default=0.0, ge=0.0, le=90.0)

    @property
    def is_active(self) -> bool:
        """Whether anything is drawn."""
        return bool(self.pos_m or self.rotation_deg or self.fovy_deg)


class LightJitter(ConfigModel):
    """Likewise of every light of the scene; the headlight at the camera stays as it is.

    Args:
        pos_m: Along each axis of the body that carries it, at most.
        rotation_deg: About each axis of that body, at most.
        intensity: Range of the factor by which its diffuse and specular colours are multiplied.
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
    """A camera of the scene that gives an item of the observation.

    Args:
        name: Of the camera in the scene; a robot's are in its ``robot.yaml``.
        obs: Name of the item; ``<name>_rgb`` where empty.
        width: Of the picture, pixels.
        height: Likewise.
        jitter: How far it may be off.
    """

    name: str
    obs: str = ""
    width: Side = 128
    height: Side = 128
    jitter: CameraJitter = CameraJitter()

    @property
    def item(self) -> str:
        """Name of the item of the observation."""
        return self.obs or f"{self.name}_rgb"

    @property
    def spec(self) -> TensorSpec:
        """Of a picture."""
        return TensorSpec(shape=(3, self.height, self.width), dtype="uint8")


class RenderConfig(ConfigModel):
    """The processes that draw where a backend does not draw itself.

    Args:
        workers: How many; 0 is one a usable core, and never more than there are envs.
        timeout_s: A process that has drawn no picture for so long is given up.
        start_timeout_s: Likewise one that has not started.
    """

    workers: int = Field(default=0, ge=0)
    timeout_s: float = Field(default=10.0, gt=0.0)
    start_timeout_s: float = Field(default=60.0, gt=0.0)


class CameraSettings(ConfigModel):
    """What an env with cameras has among its settings.

    Args:
        cameras: Whose pictures are items of the observation; each a ``CameraItem``.
        lights: How far the lights of the scene may be off.
        rendering: The processes that draw.
    """

    cameras: tuple[CameraItem, ...] = ()
    lights: LightJitter = LightJitter()
    rendering: RenderConfig = RenderConfig()

    @model_validator(mode="after")
    def _seen_by_somebody(self) -> CameraSettings:
        if not self.cameras and self.lights != LightJitter():
            raise ValueError("lights: no camera sees them; give cameras, too")
        return self

    @model_serializer(mode="wrap")
    def _as_before_cameras(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Those that say nothing are left out, so that what is older keeps its hashes."""
        default = {"cameras": (), "lights": LightJitter(), "rendering": RenderConfig()}
        unused = {name for name, value in default.items() if getattr(self, name) == value}
        return {name: value for name, value in dump(self).items() if name not in unused}


def with_images(spec: ObsSpec, cameras: Iterable[CameraItem]) -> ObsSpec:
    """An observation with the pictures of cameras behind what is there.

    Raises:
        ConfigError: Two items would have one name.
    """
    items: dict[str, TensorSpec] = dict(spec.items)
    for camera in cameras:
        if camera.item in items:
            raise ConfigError(
                f"two items of the observation are called '{camera.item}'",
                where="cameras",
                hint="give the camera another obs",
            )
        items[camera.item] = camera.spec
    return ObsSpec(items=items)
