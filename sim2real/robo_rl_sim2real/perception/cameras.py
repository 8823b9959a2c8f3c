"""Conversion of received images to items of the observation.

An image is (H, W, C); the contract gives an item's shape. One topic may serve several items, each
with its own crop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from robo_rl.api.robot import Robot
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.images import Crop, channels_first, crop_and_resize
from robo_rl.core.spec import TensorSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.messages.kinds import IMAGES
from robo_rl_sim2real.messages.readings import Reading, Values
from robo_rl_sim2real.perception.calibration import CalibrationCheck, ExpectedIntrinsics
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.jpeg_png import decode
from robo_rl_sim2real.perception.observer import Source


class ImageItem(NamedTuple):
    """An item made of a topic's images: its name, spec and crop."""

    name: str
    spec: TensorSpec
    crop: Crop | None


class CameraPreprocessor:
    """Processes the images of one topic.

    Args:
        topic: Name of the topic.
        views: Items that are made of its images.
        guard: Camera guard, shared with the other cameras.
        calibrations: Checks of the calibration, one for each that an item expects.
    """

    def __init__(
        self,
        topic: str,
        views: tuple[ImageItem, ...],
        guard: CameraGuard,
        calibrations: tuple[CalibrationCheck, ...] = (),
    ) -> None:
        self.topic, self.views, self.guard = topic, views, guard
        self.calibrations = calibrations
        self._sized = any(view.crop is not None and max(view.crop) > 1.0 for view in views)
        self._size: tuple[int, ...] = ()

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
        for calibration in self.calibrations:
            if calibration.problem is not None:
                raise calibration.problem
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
        lenses = [
            _lens(name, source, robot, cfg) for name, source in mine.items() if source.camera_info
        ]
        checks = tuple(CalibrationCheck(lens) for lens in dict.fromkeys(lenses))
        found[topic] = CameraPreprocessor(topic, views, guard, checks)
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
