"""Camera messages: images, compressed images and camera calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.message_factory import MessageFactory, header
from robo_rl_sim2real.messages.pixels import decode_image
from robo_rl_sim2real.messages.readings import Reading, Values

IMAGE = "sensor_msgs/msg/Image"
COMPRESSED = "sensor_msgs/msg/CompressedImage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"
_ENCODINGS = {("uint8", 3): "rgb8", ("uint8", 1): "mono8", ("float32", 1): "32FC1"}


def write_image(reading: Reading, dialect: MessageFactory) -> Any:
    """Return a message of an "image" (H, W, C).

    Raises:
        SpecError: It is neither uint8 with C = 3 or 1 nor float32 with C = 1.
    """
    image = reading.fields["image"]
    height, width, channels = image.shape
    encoding = _ENCODINGS.get((image.dtype.name, channels))
    if encoding is None:
        kinds = ", ".join(f"{dtype} × {size}" for dtype, size in _ENCODINGS)
        raise SpecError("image", expected=kinds, found=f"{image.dtype} × {channels}")
    return dialect.message(IMAGE)(
        header=header(dialect, reading.stamp_s),
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=0,
        step=channels * width * image.itemsize,
        data=dialect.octets(image.astype(image.dtype.newbyteorder("<"), copy=False).tobytes()),
    )


def read_image(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    """Return the image of a message; see ``pixels``."""
    return {"image": decode_image(message)}, ()


def write_compressed(reading: Reading, dialect: MessageFactory) -> Any:
    """Return a message of compressed bytes "data" and their "format"."""
    return dialect.message(COMPRESSED)(
        header=header(dialect, reading.stamp_s),
        format=str(reading.fields["format"]),
        data=dialect.octets(reading.fields["data"].tobytes()),
    )


def read_compressed(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    """Return the compressed bytes and their format; decoding would block the transport's thread."""
    return {"data": np.asarray(message.data, np.uint8), "format": np.asarray(message.format)}, ()


def write_info(reading: Reading, dialect: MessageFactory) -> Any:
    """Return a message of an intrinsic matrix "k" (3, 3) for images of a "size" (height, width)."""
    height, width = map(int, reading.fields["size"])
    roi = dialect.message("sensor_msgs/msg/RegionOfInterest")
    return dialect.message(CAMERA_INFO)(
        header=header(dialect, reading.stamp_s),
        height=height,
        width=width,
        distortion_model="plumb_bob",
        d=dialect.floats(np.zeros(5)),
        k=dialect.floats(reading.fields["k"].ravel()),
        r=dialect.floats(np.eye(3).ravel()),
        p=dialect.floats(np.hstack([reading.fields["k"], np.zeros((3, 1))]).ravel()),
        binning_x=0,
        binning_y=0,
        roi=roi(x_offset=0, y_offset=0, height=0, width=0, do_rectify=False),
    )


def read_info(message: Any) -> tuple[dict[str, Values], tuple[str, ...]]:
    """Return the intrinsic matrix "k" (3, 3) and the image "size" (height, width) of a message.

    Raises:
        SpecError: The matrix does not have nine values.
    """
    if len(message.k) != 9:
        raise SpecError("intrinsic matrix", expected="9 numbers", found=len(message.k))
    size = np.array([message.height, message.width], np.float64)
    return {"k": np.asarray(message.k, np.float64).reshape(3, 3), "size": size}, ()
