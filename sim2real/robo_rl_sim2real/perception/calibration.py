"""Checks the calibration of a camera: its vertical field of view.

An image is (H, W, C). Angles are in rad.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl.core.images import Crop, crop_window
from robo_rl_sim2real.messages.readings import Reading, Values


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


class CalibrationCheck:
    """Compares the messages of a calibration topic with what is expected.

    Args:
        expected: Expected calibration.
    """

    def __init__(self, expected: ExpectedIntrinsics) -> None:
        self.expected = expected
        self.problem: SpecError | None = SpecError(
            "calibration: no message yet", where=expected.topic
        )
        """Why images are refused; None if the calibration is as expected."""

    def on_camera_info(self, reading: Reading) -> None:
        """Check a camera's calibration; images with another field of view are refused."""
        lens = self.expected
        try:
            found = field_of_view(reading.fields["k"], reading.fields["size"], lens.crop)
        except SpecError as error:
            self.problem = error
            return
        fits = abs(found / lens.fovy - 1.0) <= lens.tolerance
        self.problem = None if fits else _another_view(lens, found)


def _another_view(lens: ExpectedIntrinsics, found: float) -> SpecError:
    return SpecError(
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
