"""From a picture as it came to the items of an observation that are made of it.

An image is (H, W, C); an item's shape is the contract's. One topic may serve several items, each
with a crop of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from robo_rl.api.robot import Robot
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.images import Crop, channels_first, crop_and_resize, crop_window
from robo_rl.core.spec import TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.messages.kinds import IMAGES
from robo_rl_sim2real.messages.readings import Reading, Values
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.jpeg_png import decode
from robo_rl_sim2real.perception.observer import Source


class ImageItem(NamedTuple):
    """An item made of a topic's pictures: its name, its spec, and the part that it shows."""

    name: str
    spec: TensorSpec
    crop: Crop | None


class ExpectedIntrinsics(NamedTuple):
    """What a camera's calibration is to be.

    Args:
        topic: Topic of sensor_msgs/msg/CameraInfo.
        fovy: Vertical field of view of the policy's picture, in rad.
        crop: The part that the policy sees.
        tolerance: Share of ``fovy`` by which it may differ.
    """

    topic: str
    fovy: float
    crop: Crop | None
    tolerance: float


class CameraPreprocessor:
    """One topic's pictures.

    Args:
        topic: Which.
        views: Items that are made of them.
        guard: Shared with the other cameras.
        lens: None where nobody says how the camera is calibrated.
    """

    def __init__(
        self,
        topic: str,
        views: tuple[ImageItem, ...],
        guard: CameraGuard,
        lens: ExpectedIntrinsics | None = None,
    ) -> None:
        self.topic, self.views, self.guard, self.lens = topic, views, guard, lens
        self._amiss: SpecError | None = None
        if lens is not None:
            self._amiss = SpecError("calibration: nothing was heard yet", where=lens.topic)

    def process(self, reading: Reading) -> Reading:
        """A picture as a reading with a field for every view, as old as the picture.

        Raises:
            SpecError: It is damaged, of another size or type, or not worth acting on.
            DeviceError: It is compressed and OpenCV is not installed.
        """
        raw = reading.fields.get("image", reading.fields.get("data"))
        assert raw is not None
        self.guard.check_not_frozen(self.topic, raw, reading.stamp_s)
        image = raw
        if "format" in reading.fields:
            image = decode(raw, str(reading.fields["format"]))
        self.guard.check_exposure(image)
        self.guard.check_not_duplicate(self.topic)
        if self._amiss is not None:
            raise self._amiss
        fields = {view.name: _fitted(image, view) for view in self.views}
        return Reading(fields, (), reading.stamp_s, sent_s=reading.sent_s)

    def on_camera_info(self, reading: Reading) -> None:
        """Hear a camera's calibration; pictures of another than the policy's are refused."""
        assert self.lens is not None
        self._amiss, lens = None, self.lens
        try:
            found = field_of_view(reading.fields["k"], reading.fields["size"], lens.crop)
        except SpecError as error:
            self._amiss = error
            return
        if abs(found / lens.fovy - 1.0) > lens.tolerance:
            self._amiss = SpecError(
                "calibration: another vertical field of view than robot.yaml has",
                where=lens.topic,
                expected=f"{math.degrees(lens.fovy):.1f}°",
                found=f"{math.degrees(found):.1f}°",
                hint="another camera, another crop, or a robot.yaml of another camera",
            )


def field_of_view(k: Values, size: Values, crop: Crop | None) -> float:
    """Vertical field of view of the part of a picture that ``crop`` names, in rad.

    Args:
        k: (3, 3) intrinsic matrix in pixels.
        size: (height, width) of the pictures that it is of.
        crop: None for all of it.

    Raises:
        SpecError: No calibration, or a crop beyond the picture.
    """
    height, width = int(size[0]), int(size[1])
    focal, centre = float(k[1, 1]), float(k[1, 2])
    if not (np.isfinite(k).all() and focal > 0.0 and height > 0 < width):
        raise SpecError("calibration: the camera has none", found=f"fy {focal:g}, {width}x{height}")
    top, _, rows, _ = crop_window(crop, height, width) if crop else (0, 0, height, width)
    return math.atan((centre - top) / focal) + math.atan((top + rows - centre) / focal)


def make_preprocessors(
    specs: Mapping[str, TensorSpec],
    sources: Mapping[str, Source],
    robot: Robot,
    cfg: CameraGuard.Config,
) -> dict[str, CameraPreprocessor]:
    """Topic → its eye, of all topics with pictures.

    Args:
        specs: The contract's items.
        sources: Where they come from.
        robot: Whose cameras they are.
        cfg: Thresholds.

    Raises:
        ConfigError: A crop or calibration of what is no picture, an item that is none, or a camera
            that the robot does not have.
    """
    for name, source in sources.items():
        if source.msg_type not in IMAGES and (source.crop or source.camera_info or source.camera):
            raise ConfigError(f"observe.{name}: crop, info and camera are for images")
    guard, found = CameraGuard(cfg), dict[str, CameraPreprocessor]()
    shown = {name: source for name, source in sources.items() if source.msg_type in IMAGES}
    for topic in {source.topic: None for source in shown.values() if source.topic}:
        mine = {name: source for name, source in shown.items() if source.topic == topic}
        views = tuple(_view(name, specs[name], mine[name]) for name in mine if name in specs)
        lenses = (
            _lens(name, source, robot, cfg) for name, source in mine.items() if source.camera_info
        )
        found[topic] = CameraPreprocessor(topic, views, guard, next(lenses, None))
    return found


def _view(name: str, spec: TensorSpec, source: Source) -> ImageItem:
    try:
        channels_first(spec.shape)
    except SpecError as error:
        raise ConfigError(f"observe.{name}: the contract's is no image: {error}") from None
    return ImageItem(name, spec, source.crop)


def _lens(name: str, source: Source, robot: Robot, cfg: CameraGuard.Config) -> ExpectedIntrinsics:
    cameras = {camera.name: camera for camera in robot.cameras}
    of_topic = (camera for camera, topic in robot.topics.images.items() if topic == source.topic)
    which = source.camera or next(of_topic, "")
    if which not in cameras:
        hint = f"say which it is: {did_you_mean(which, cameras)}"
        raise ConfigError(f"observe.{name}.camera: no such camera", found=f"'{which}'", hint=hint)
    return ExpectedIntrinsics(
        source.camera_info, math.radians(cameras[which].fovy), source.crop, cfg.fovy_tolerance
    )


def _fitted(image: Values, view: ImageItem) -> Values:
    try:
        ready = crop_and_resize(image, view.spec.shape, view.crop)
    except SpecError as error:
        raise SpecError(f"obs '{view.name}': {error}") from None
    if str(ready.dtype) != view.spec.dtype:
        raise SpecError(f"obs '{view.name}'", expected=view.spec.dtype, found=str(ready.dtype))
    return ready
