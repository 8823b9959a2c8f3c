"""Videos are written without any change to the process that writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from robo_rl.data.lerobot.video import CODECS, Frame, frames_at, write_video


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
    shades = [float(frame.mean()) for frame in frames_at(file, 0.0, 3, 10.0)]
    assert shades == pytest.approx([0, 80, 160], abs=6)
