"""Videos leave the process that writes them as it is; sides are compared before decoding."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_lerobot import png

from robo_rl.core.errors import DataError
from robo_rl.data.lerobot.video import Frame, decode_picture, frames_at
from robo_rl.data.lerobot.video_writer import CODECS, write_video


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="priorities of Linux")
@pytest.mark.parametrize("codec", CODECS)
def test_an_encoder_does_not_make_this_thread_a_real_time_one(codec: str, tmp_path: Path):
    """For root the encoder of AV1 does; child processes of the thread would starve all others."""
    before, seen = os.sched_getscheduler(0), list[int]()

    def frames() -> Iterator[Frame]:
        for shade in (0, 80, 160):
            seen.append(os.sched_getscheduler(0))
            yield np.full((64, 64, 3), shade, np.uint8)

    file = tmp_path / "it.mp4"
    assert write_video(file, frames(), 10.0, codec, 30) == 3
    assert [*seen, os.sched_getscheduler(0)] == [before] * 4
    shades = [float(frame.mean()) for frame in frames_at(file, 0.0, 3, 10.0, (64, 64))]
    assert shades == pytest.approx([0, 80, 160], abs=6)


def test_a_picture_of_its_sides_is_decoded():
    assert decode_picture(png(48, 64), "here", (48, 64)).shape == (48, 64, 3)


@pytest.mark.parametrize(
    ("sides", "found"),
    [((64, 48), "found 48 × 64 pixels"), ((4000, 4000), "found none, or far more pixels")],
)
def test_a_picture_of_other_sides_is_refused(sides: tuple[int, int], found: str):
    with pytest.raises(DataError, match=f"here: a frame has other sides.*64 × 48 pixels, {found}"):
        decode_picture(png(*sides), "here", (48, 64))


def test_a_picture_of_other_sides_is_not_decoded(tmp_path: Path):
    """Neither when it is opened, where libraries look at a first frame; 9000 × 9000 take 243 MB."""
    file = tmp_path / "it.png"
    file.write_bytes(png(9000, 9000))
    code = (
        "import pathlib, resource, sys\n"
        "from robo_rl.core.errors import DataError\n"
        "from robo_rl.data.lerobot.video import decode_picture\n"
        "data = pathlib.Path(sys.argv[1]).read_bytes()\n"
        "try:\n    decode_picture(data[:100], 'here', (8, 8))\n"
        "except DataError:\n    pass\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    decode_picture(data, 'here', (48, 64))\n"
        "except DataError:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True)
    assert int(done.stdout) < 50 << 10, done.stderr


@pytest.mark.parametrize("codec", CODECS)
def test_a_video_of_other_sides_is_refused(codec: str, tmp_path: Path):
    file = tmp_path / "it.mp4"
    write_video(file, [np.zeros((64, 96, 3), np.uint8)] * 3, 10.0, codec, 30)
    assert len(list(frames_at(file, 0.0, 3, 10.0, (64, 96)))) == 3
    with pytest.raises(DataError, match=r"it\.mp4: a frame has other sides.*found 96 × 64 pixels"):
        next(frames_at(file, 0.0, 3, 10.0, (96, 64)))
