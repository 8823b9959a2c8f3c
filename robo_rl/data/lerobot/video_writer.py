"""Encoding of frames as a video.

Shapes: a frame is (height, width, 3) uint8.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from robo_rl.core.errors import DataError
from robo_rl.data.lerobot.video import Frame

CODECS = {"av1": "libsvtav1", "h264": "libx264"}
"""Name in ``info.json`` → encoder."""

MAX_CRF = {"av1": 63, "h264": 51}
"""Name in ``info.json`` → coarsest quality of the encoder."""


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
