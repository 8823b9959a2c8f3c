"""Pixels of sensor_msgs/msg/Image by their encoding: (H, W, C), colours RGB, depth in m."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.readings import Values


class _Encoding(NamedTuple):
    """Number and type of channels, and the conversion of their values."""

    channels: int
    dtype: str
    finish: Callable[[Values], Values]


def decode_image(message: Any) -> Values:
    """Return (H, W, 3) uint8 RGB, (H, W, 1) uint8 grey, or (H, W, 1) float32 depth in m.

    Depth is 0 at pixels without a measurement.

    Raises:
        SpecError: The parts of the message do not agree, or the encoding is unknown.
    """
    encoding = _ENCODINGS.get(message.encoding)
    if encoding is None:
        raise SpecError("image encoding", expected=sorted(_ENCODINGS), found=message.encoding)
    dtype = np.dtype(encoding.dtype).newbyteorder(">" if message.is_bigendian else "<")
    height, width, step = message.height, message.width, message.step
    used, data = encoding.channels * width * dtype.itemsize, np.asarray(message.data, np.uint8)
    if step < used or len(data) != step * height:
        raise SpecError("image", expected=f"{step * height} bytes", found=len(data))
    if not height * width:
        raise SpecError("image without pixels", found=f"{width} x {height}")
    rows = np.ascontiguousarray(data.reshape(height, step)[:, :used]).view(dtype)
    return encoding.finish(rows.reshape(height, width, encoding.channels))


def _metres(depth: Values) -> Values:
    """Return the depth with non-finite values, which mark missing measurements (REP 118), as 0."""
    return np.nan_to_num(depth.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def _millimetres(depth: Values) -> Values:
    return depth.astype(np.float32) * np.float32(1e-3)


_ENCODINGS = {
    "rgb8": _Encoding(3, "u1", lambda image: image),
    "bgr8": _Encoding(3, "u1", lambda image: image[..., ::-1]),
    "rgba8": _Encoding(4, "u1", lambda image: image[..., :3]),
    "bgra8": _Encoding(4, "u1", lambda image: image[..., 2::-1]),
    "mono8": _Encoding(1, "u1", lambda image: image),
    "16UC1": _Encoding(1, "u2", _millimetres),
    "32FC1": _Encoding(1, "f4", _metres),
}
