"""Frames of videos at given times, decoded in one pass; and their encoding.

Shapes: a frame is (height, width, 3) uint8.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.lerobot.info import AGAIN

CODECS = {"av1": "libsvtav1", "h264": "libx264"}
"""Name in ``info.json`` → encoder."""

Frame = NDArray[np.uint8]

_LOCAL = {"protocol_whitelist": "file"}
"""Options of PyAV: files alone are opened, no addresses that a name or a playlist holds."""

_PICTURES = {b"\x89PNG": "png_pipe", b"\xff\xd8\xff": "jpeg_pipe"}
"""First bytes of an image → its format."""


def frames_at(file: Path, begin_s: float, count: int, fps: float) -> Iterator[Frame]:
    """Yield ``count`` frames of a video, from a time on.

    Args:
        file: The video.
        begin_s: Time of the first frame.
        count: Number of frames.
        fps: Frames per second.

    Raises:
        DataError: The file is missing or damaged, or ends before, or has no frame at a time.
    """
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(file.absolute()), format="mp4", options=_LOCAL) as container:
            yield from _wanted(container, file, begin_s, count, fps)
    except (FFmpegError, OSError, IndexError, ValueError) as error:  # names that are no UTF-8
        raise DataError(f"unreadable: {error}", where=file, hint=AGAIN) from None


def _wanted(container: Any, file: Path, begin_s: float, count: int, fps: float) -> Iterator[Frame]:
    stream, found = container.streams.video[0], 0
    stream.thread_type = "AUTO"
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
        yield frame.to_ndarray(format="rgb24")
        found += 1
        if found == count:
            return
    raise DataError(
        "frames are missing",
        where=file,
        expected=f"{count} frames from {begin_s:g} s on, {fps:g} a second",
        found=f"{found} frames",
    )


def decode_picture(data: bytes, where: object) -> Frame:
    """Decode a PNG or JPEG image.

    Raises:
        DataError: It is damaged.
    """
    import av
    from av.error import FFmpegError

    kind = next((each for start, each in _PICTURES.items() if data.startswith(start)), None)
    if kind is None:
        raise DataError("is no PNG or JPEG image", where=where)
    try:
        with av.open(io.BytesIO(data), "r", format=kind, options=_LOCAL) as container:
            return cast(Frame, next(container.decode(video=0)).to_ndarray(format="rgb24"))
    except (FFmpegError, OSError, IndexError, StopIteration, ValueError) as error:
        raise DataError(f"damaged image: {error}", where=where) from None


def write_video(file: Path, frames: Iterable[Frame], fps: float, codec: str, crf: int) -> int:
    """Encode frames of one size; return their number.

    Args:
        file: MP4 file to write.
        frames: Frames, with even sides.
        fps: Frames per second.
        codec: A key of ``CODECS``.
        crf: Quality, lower is better.

    Raises:
        DataError: The video cannot be written.
    """
    import av
    from av.error import FFmpegError

    os.environ.setdefault("SVT_LOG", "1")  # the encoder of AV1 prints errors alone
    count = 0
    try:
        with _kept_priority() as restore, av.open(str(file), "w") as container:
            stream: Any = None
            for image in frames:
                if stream is None:
                    options = {"crf": str(crf), "g": "2"}
                    rate = Fraction(fps).limit_denominator(10_000)
                    stream = container.add_stream(CODECS[codec], rate=rate, options=options)
                    stream.height, stream.width = image.shape[:2]
                    stream.pix_fmt = "yuv420p"
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
                restore()
                count += 1
            if stream is not None:
                container.mux(stream.encode())
    except (FFmpegError, OSError) as error:
        raise DataError(f"could not be written: {error}", where=file) from None
    return count


@contextmanager
def _kept_priority() -> Generator[Callable[[], None]]:
    """Yield a function that restores the priority of this thread; also restore it at the end.

    For root the encoder of AV1 gives the thread that starts it a real-time priority. The frames
    still to come, and all child processes, would inherit it and leave other processes no time.
    """
    if not hasattr(os, "sched_getscheduler"):
        yield lambda: None
        return
    before = os.sched_getscheduler(0), os.sched_getparam(0)

    def restore() -> None:
        if os.sched_getscheduler(0) != before[0]:
            os.sched_setscheduler(0, *before)

    try:
        yield restore
    finally:
        restore()
