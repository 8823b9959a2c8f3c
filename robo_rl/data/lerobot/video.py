"""Frames of videos at given times, decoded in one pass, and images.

The sides of a frame are compared before it is decoded: a few bytes can stand for any number.

Shapes: a frame is (height, width, 3) uint8.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.lerobot.info import AGAIN

Frame = NDArray[np.uint8]

_LOCAL = {"protocol_whitelist": "file"}
"""Options of PyAV: files alone are opened, no addresses that a name or a playlist holds."""

_STREAMS = 16
"""Streams of a file that get the options of decoders: opening it may decode a frame of each."""

_LARGEST_BLOCK = 128
"""Largest side of a codec's block, in pixels."""

_PICTURES = {b"\x89PNG": "png_pipe", b"\xff\xd8\xff": "jpeg_pipe"}
"""First bytes of an image → its format."""


def frames_at(
    file: Path, begin_s: float, count: int, fps: float, sides: tuple[int, int]
) -> Iterator[Frame]:
    """Yield ``count`` frames of a video, from a time on.

    Args:
        file: The video.
        begin_s: Time of the first frame.
        count: Number of frames.
        fps: Frames per second.
        sides: Height and width of a frame, which are compared before one is decoded.

    Raises:
        DataError: The file is missing or damaged, ends before, has no frame at a time, or has
            frames of other sides.
    """
    from av.error import FFmpegError

    try:
        with _opened(str(file.absolute()), "mp4", sides) as container:
            stream = _stream(container, sides, file)
            for frame in _wanted(container, stream, file, begin_s, count, fps):
                _check_sides((frame.height, frame.width), sides, file)
                yield frame.to_ndarray(format="rgb24")
    except (FFmpegError, OSError, IndexError, ValueError) as error:  # names that are no UTF-8
        raise DataError(f"unreadable: {error}", where=file, hint=AGAIN) from None


def _opened(source: Any, kind: str, sides: tuple[int, int]) -> Any:
    """Open a file of one format; its decoders refuse far more pixels than those of its sides."""
    import av

    of_streams: Any = [_most_pixels(sides)] * _STREAMS  # PyAV's stubs ask for a list of text
    return av.open(source, "r", format=kind, options=_LOCAL, stream_options=of_streams)


def _most_pixels(sides: tuple[int, int]) -> dict[str, str]:
    """Return the options of a decoder; codecs pad sides to whole blocks."""
    height, width = (side + _LARGEST_BLOCK for side in sides)
    return {"max_pixels": str(height * width)}


def _stream(container: Any, sides: tuple[int, int], where: object) -> Any:
    """Return the first video stream, which must say that its frames have the sides."""
    stream = container.streams.video[0]
    _check_sides((stream.height, stream.width), sides, where)
    stream.codec_context.options = _most_pixels(sides)
    return stream


def _check_sides(found: tuple[int, int], sides: tuple[int, int], where: object) -> None:
    """Check the height and width of a frame: crops are in pixels of these."""
    if found != sides:
        (height, width), (wanted_height, wanted_width) = found, sides
        raise DataError(
            "a frame has other sides than meta/info.json says",
            where=where,
            expected=f"{wanted_width} × {wanted_height} pixels",
            found=f"{width} × {height} pixels" if height else "none, or far more pixels",
        )


def _wanted(
    container: Any, stream: Any, file: Path, begin_s: float, count: int, fps: float
) -> Iterator[Any]:
    """Yield the decoded frames at the times of ``frames_at``."""
    found, stream.thread_type = 0, "AUTO"
    if begin_s > 0.0:
        container.seek(max(0, int((begin_s - 0.5 / fps) / stream.time_base)), stream=stream)
    for frame in container.decode(stream):
        wanted_s = begin_s + found / fps
        if frame.pts is None:
            raise DataError("a frame has no time", where=file)
        late_s = float(frame.pts * stream.time_base) - wanted_s
        if late_s < -0.5 / fps:
            continue
        if late_s > 0.5 / fps:
            break
        yield frame
        found += 1
        if found == count:
            return
    raise DataError(
        "frames are missing",
        where=file,
        expected=f"{count} frames from {begin_s:g} s on, {fps:g} a second",
        found=f"{found} frames",
    )


def decode_picture(data: bytes, where: object, sides: tuple[int, int]) -> Frame:
    """Decode a PNG or JPEG image.

    Args:
        data: The encoded image.
        where: Place of the image, for errors.
        sides: Its height and width, which are compared before it is decoded.

    Raises:
        DataError: It is damaged or has other sides.
    """
    from av.error import FFmpegError

    kind = next((each for start, each in _PICTURES.items() if data.startswith(start)), None)
    if kind is None:
        raise DataError("is no PNG or JPEG image", where=where)
    try:
        with _opened(io.BytesIO(data), kind, sides) as container:
            frame = next(container.decode(_stream(container, sides, where)))
            _check_sides((frame.height, frame.width), sides, where)
            return cast(Frame, frame.to_ndarray(format="rgb24"))
    except (FFmpegError, OSError, IndexError, StopIteration, ValueError) as error:
        raise DataError(f"damaged image: {error}", where=where) from None
