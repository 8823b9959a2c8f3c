"""Conversion of received images to items of the observation.

An image is (H, W, C); the contract gives an item's shape. One topic may serve several items, each
with its own crop.
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
    """An item made of a topic's images: its name, spec and crop."""

    name: str
    spec: TensorSpec
    crop: Crop | None


class ExpectedIntrinsics(NamedTuple):
    """The expected calibration of a camera.

    Args:
        topic: Topic of sensor_msgs/msg/CameraInfo.
        fovy: Vertical field of view of the policy's image, in rad.
        crop: Part of the image that the policy receives.
        tolerance: Largest relative difference from ``fovy``.
    """

    topic: str
    fovy: float
    crop: Crop | None
    tolerance: float


class CameraPreprocessor:
    """Processes the images of one topic.

    Args:
        topic: Name of the topic.
        views: Items that are made of its images.
        guard: Camera guard, shared with the other cameras.
        lens: Expected calibration; None without a calibration topic.
    """

    def __init__(
        self,
        topic: str,
        views: tuple[ImageItem, ...],
        guard: CameraGuard,
        lens: ExpectedIntrinsics | None = None,
    ) -> None:
        self.topic, self.views, self.guard, self.lens = topic, views, guard, lens
        self._sized = any(view.crop is not None and max(view.crop) > 1.0 for view in views)
        self._size: tuple[int, ...] = ()
        self._amiss: SpecError | None = None
        if lens is not None:
            self._amiss = SpecError("calibration: no message yet", where=lens.topic)

    def process(self, reading: Reading) -> Reading:
        """Return an image as a reading with a field per item and the image's time.

        Raises:
            SpecError: The image is damaged, of another size or type, or unusable.
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
        if self._sized and self._size:
            self._demand_size(image.shape[:2])
        fields = {view.name: _fitted(image, view) for view in self.views}
        self._size = image.shape[:2]
        return Reading(fields, (), reading.stamp_s, sent_s=reading.sent_s)

    def _demand_size(self, found: tuple[int, ...]) -> None:
        """Refuse an image of another size than the first: a crop in pixels shows another view."""
        if found != self._size:
            raise SpecError(
                "size of an image with a crop in pixels",
                where=self.topic,
                expected=f"{self._size[0]} x {self._size[1]} as the first image",
                found=f"{found[0]} x {found[1]}",
                hint="mend the camera's mode, or restart the node with a crop for this size",
            )

    def on_camera_info(self, reading: Reading) -> None:
        """Check a camera's calibration; images with another field of view are refused."""
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
    """Return the vertical field of view of the cropped image, in rad.

    Args:
        k: (3, 3) intrinsic matrix in pixels.
        size: (height, width) of the images that it applies to.
        crop: Part of the image; None for all of it.

    Raises:
        SpecError: The camera has no calibration, or the crop exceeds the image.
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
    """Return the preprocessor of every topic with images.

    Args:
        specs: Items of the contract.
        sources: Sources of the items.
        robot: Robot with the cameras.
        cfg: Thresholds.

    Raises:
        ConfigError: A crop or calibration of a topic without images, an item that is no image, or a
            camera that the robot does not have.
    """
    for name, source in sources.items():
        if source.msg_type not in IMAGES and (source.crop or source.camera_info or source.camera):
            raise ConfigError(f"observe.{name}: crop, camera_info and camera are for images")
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
