"""Decodes JPEG and PNG; the size in the header is checked before decoding.

OpenCV decodes; it is only imported at the first image.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from robo_rl.core.errors import DeviceError, SpecError
from robo_rl_sim2real.messages.readings import Values

MAX_PIXELS = 1 << 24
"""Upper limit on the size of an image, above any robot's camera."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_ALONE = {0x01, *range(0xD0, 0xD8)}
_MILLIMETRE = np.float32(1e-3)


class Header(NamedTuple):
    """The header of an image.

    Args:
        height: In pixels.
        width: In pixels.
        bits: Bits per channel.
        grey: Whether it has one channel.
    """

    height: int
    width: int
    bits: int
    grey: bool


def decode(data: Values, format_: str) -> Values:
    """Return a compressed image as (H, W, 3) uint8 RGB, (H, W, 1) uint8, or (H, W, 1) float32 in m.

    Args:
        data: Bytes of the image.
        format_: ``format`` of its sensor_msgs/msg/CompressedImage.

    Raises:
        SpecError: It is no image, damaged, or too large.
        DeviceError: OpenCV is not installed.
    """
    if "compressedDepth" in format_:
        hint = "subscribe to the raw depth image instead"
        raise SpecError("a format that is not understood", found=f"'{format_}'", hint=hint)
    header = read_header(bytes(data))
    pixels = _decoded(data, header)
    if pixels.shape[:2] != (header.height, header.width):
        raise SpecError(_DAMAGED, expected=header[:2], found=pixels.shape[:2])
    if pixels.dtype == np.uint16:
        return (pixels * _MILLIMETRE)[..., None]
    if pixels.ndim == 2:
        return pixels[..., None]
    # Some senders compress RGB values as if they were BGR, and declare it in the format. OpenCV
    # then returns RGB.
    return pixels if "compressed rgb" in format_ else np.ascontiguousarray(pixels[..., ::-1])


def read_header(data: bytes) -> Header:
    """Return the header of a JPEG or PNG.

    Raises:
        SpecError: Neither format, cut off, without pixels, or with more than ``MAX_PIXELS``.
    """
    if data.startswith(_PNG):
        header = _png(data)
    elif data.startswith(_JPEG):
        header = _jpeg(data)
    else:
        found = f"{len(data)} bytes that begin with {data[:4].hex(' ') or 'nothing'}"
        raise SpecError("a compressed image", expected="JPEG or PNG", found=found)
    pixels = header.height * header.width
    if not 0 < pixels <= MAX_PIXELS:
        size = f"{header.width} x {header.height}"
        raise SpecError("size of a compressed image", expected=f"1 to {MAX_PIXELS} px", found=size)
    return header


def _png(data: bytes) -> Header:
    if len(data) < 26 or data[12:16] != b"IHDR":
        raise SpecError(_DAMAGED, found="a PNG without a header")
    width, height, bits, colour = struct.unpack(">IIBB", data[16:26])
    return Header(height, width, bits, grey=colour in (0, 4))


def _jpeg(data: bytes) -> Header:
    """Find the frame header from marker to marker, and require the end marker."""
    if not data.rstrip(b"\0").endswith(b"\xff\xd9"):
        raise SpecError(_DAMAGED, found="a JPEG without its end")
    at = 2
    while at + 10 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            bits, height, width, channels = struct.unpack(">BHHB", data[at + 4 : at + 10])
            return Header(height, width, bits, grey=channels == 1)
        at += _to_next(data, at, marker)
    raise SpecError(_DAMAGED, found="a JPEG without a frame")


def _to_next(data: bytes, at: int, marker: int) -> int:
    """Return the length of a marker's segment; 0xFF may be repeated before a marker."""
    if marker == 0xFF:
        return 1
    return 2 if marker in _ALONE else 2 + int.from_bytes(data[at + 2 : at + 4], "big")


_DAMAGED = "a damaged compressed image"


def _decoded(data: Values, header: Header) -> Values:
    """Return (H, W, 3) BGR, or (H, W) for a grey image, with its own bit depth."""
    cv2 = _opencv()
    colour = cv2.IMREAD_GRAYSCALE if header.grey else cv2.IMREAD_COLOR
    flags = cv2.IMREAD_UNCHANGED if header.grey and header.bits == 16 else colour
    try:
        pixels = cv2.imdecode(data, flags | cv2.IMREAD_IGNORE_ORIENTATION)
    except cv2.error as error:
        raise SpecError(_DAMAGED, found=str(error).strip()) from None
    if pixels is None:
        raise SpecError(_DAMAGED, found=f"{len(data)} bytes that do not decode")
    return pixels


def _opencv() -> Any:
    try:
        import cv2
    except ImportError:
        raise DeviceError(
            "decoding compressed images needs OpenCV",
            hint="pip install 'robo-rl[images]', or apt install python3-opencv",
        ) from None
    return cv2
