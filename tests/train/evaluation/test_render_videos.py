"""Recorded episodes become a video, or one line says why there is none."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

from robo_rl.train.evaluation import render_videos as render
from robo_rl.train.evaluation.joint_trajectory_log import Clip
from robo_rl.train.evaluation.render_videos import render_clips

SCENE = """
<mujoco>
  <worldbody>
    <light pos="0 0 3"/>
    <camera name="front" pos="0 -3 1" xyaxes="1 0 0 0 0.3 1"/>
    <geom type="plane" size="2 2 0.1"/>
    <body name="ball" pos="0 0 0.3"><freejoint/><geom size="0.2" rgba="1 0 0 1"/></body>
    <body name="target" mocap="true"><geom type="box" size="0.3 0.3 0.3" rgba="0 0 1 1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def scene() -> Any:
    return mujoco.MjSpec.from_string(SCENE)


def clip(frames: int, *, success: bool, target: tuple[float, ...] = (0.0, 0.0, -9.0)) -> Clip:
    qpos = np.tile(np.array([0, 0, 0.3, 1, 0, 0, 0], np.float32), (frames, 1))
    qpos[:, 0] = np.linspace(-1, 1, frames)
    return Clip(qpos, {"target": np.array(target, np.float32)}, success)


def drawn(scene: Any, clips: list[Clip], path: Path) -> np.ndarray:
    if render_clips(scene, clips, path, fps=10, width=64, height=48) is None:
        pytest.skip("this machine has no offscreen OpenGL")
    import imageio.v3 as iio

    return iio.imread(path)


def test_video_shows_every_episode_to_its_end_in_the_colour_of_its_outcome(
    scene: Any, tmp_path: Path
) -> None:
    video = drawn(scene, [clip(5, success=True), clip(9, success=False)], tmp_path / "a.mp4")
    assert video.shape == (9 + 8, 48, 128, 3)
    good, bad = video[-1, 24, 1].astype(int), video[-1, 24, 126].astype(int)
    assert good[1] > good[0] + 50
    assert bad[0] > bad[1] + 50
    assert abs(video[0, 24, 1].astype(int) - good).max() > 50


def test_goal_marker_stands_where_the_goal_is(scene: Any, tmp_path: Path) -> None:
    clips = [clip(2, success=True), clip(2, success=True, target=(0.0, 0.0, 0.3, 1, 0, 0, 0))]
    first = drawn(scene, clips, tmp_path / "a.mp4")[0].astype(int)
    blue = (first[..., 2] > first[..., 0] + 60) & (first[..., 2] > first[..., 1] + 60)
    assert not blue[:, :64].any()
    assert blue[:, 64:].any()


def test_the_callers_scene_is_left_alone(scene: Any, tmp_path: Path) -> None:
    before = scene.to_xml()
    render_clips(scene, [clip(1, success=True)], tmp_path / "a.mp4", width=64, height=48)
    assert scene.to_xml() == before


def test_without_opengl_there_is_one_line_and_no_file(
    scene: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(render, "opengl_backends", lambda: ("no-such-gl", "neither-this"))
    with caplog.at_level(logging.WARNING):
        assert render_clips(scene, [clip(1, success=True)], tmp_path / "a.mp4") is None
    assert len(caplog.records) == 1
    line = caplog.records[0].getMessage()
    assert line.startswith("no pictures: no offscreen OpenGL (no-such-gl: ")
    assert line.endswith("apt-get install libegl1 libgl1 libgl1-mesa-dri")
    assert "\n" not in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("signal", [-6, -11], ids=["abort", "segfault"])
def test_a_drawing_process_that_dies_is_survived(
    scene: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signal: int
) -> None:
    died = SimpleNamespace(returncode=signal, stderr="")
    monkeypatch.setattr(render.subprocess, "run", lambda *args, **kwargs: died)
    assert render_clips(scene, [clip(1, success=True)], tmp_path / "a.mp4") is None
