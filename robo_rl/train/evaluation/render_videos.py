"""Renders videos of recorded episodes offscreen, in a separate process.

A missing or broken OpenGL may abort the rendering process. The run then continues without the
video and prints a one-line warning.

Shapes: T frames, nq generalised positions.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from robo_rl.env.rendering.offscreen import (
    draw_fast,
    last_line,
    mocap_markers,
    no_opengl_message,
    opengl_backends,
    opengl_environment,
)

_log = logging.getLogger(__name__)
_TIMEOUT_S = 300
_GOOD, _BAD = (46, 160, 67), (207, 34, 46)
_BORDER = 3
_LINGER_S = 0.8


class Episode(Protocol):
    """A recorded episode: qpos (T, nq), goals by name, and success."""

    @property
    def qpos(self) -> np.ndarray: ...  # noqa: D102
    @property
    def goal(self) -> Mapping[str, np.ndarray]: ...  # noqa: D102
    @property
    def success(self) -> bool: ...  # noqa: D102


def render_clips(
    scene: Any,
    clips: Sequence[Episode],
    path: Path,
    *,
    camera: str = "front",
    fps: float = 20.0,
    width: int = 320,
    height: int = 240,
) -> Path | None:
    """Render episodes side by side into one small H.264 video.

    A finished episode stands still in a green or red frame. A mocap body with the name of a goal
    stands at that goal: (3,) position, (4,) quaternion, (7,) both.

    Args:
        scene: The ``mujoco.MjSpec`` or ``MjModel`` that the positions belong to.
        clips: The episodes.
        path: ``.mp4`` to write.
        camera: Camera of the scene; the free camera if the scene has none of that name.
        fps: Frames per second.
        width: Width of one episode in pixels.
        height: Height of one episode in pixels.

    Returns:
        ``path``, or None if this machine cannot render.
    """
    job = {"camera": camera, "fps": fps, "width": width, "height": height, "clips": len(clips)}
    with tempfile.TemporaryDirectory() as scratch:
        _write_job(Path(scratch), scene, clips, job)
        problem = _draw_somehow(Path(scratch))
        if problem is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((Path(scratch) / "out.mp4").read_bytes())
            return path
    _log.warning("no pictures: %s", problem)
    return None


def _write_job(scratch: Path, scene: Any, clips: Sequence[Episode], job: Mapping[str, Any]) -> None:
    import mujoco

    model = _with_sky(scene).compile() if isinstance(scene, mujoco.MjSpec) else scene
    mujoco.mj_saveModel(model, str(scratch / "model.mjb"), None)
    for index, clip in enumerate(clips):
        arrays: dict[str, Any] = {f"goal.{name}": value for name, value in clip.goal.items()}
        np.savez(scratch / f"{index}.npz", qpos=clip.qpos, success=clip.success, **arrays)
    (scratch / "job.json").write_text(json.dumps(job))


def _with_sky(scene: Any) -> Any:
    import mujoco

    spec, kind = scene.copy(), mujoco.mjtTexture.mjTEXTURE_SKYBOX
    if all(texture.type != kind for texture in spec.textures):
        gradient = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
        sky = {"rgb1": [0.86, 0.89, 0.93], "rgb2": [0.55, 0.62, 0.7], "width": 64, "height": 384}
        spec.add_texture(name="sky", type=kind, builtin=gradient, **sky)
    return spec


def _draw_somehow(scratch: Path) -> str | None:
    """Try each kind of offscreen OpenGL; return None, or why none worked."""
    problems: dict[str, str] = {}
    for kind in opengl_backends():
        problem = _draw(scratch, kind)
        if problem is None:
            return None
        problems[kind] = problem
    if any("imageio_ffmpeg" in problem for problem in problems.values()):
        return "imageio-ffmpeg is not installed; pip install 'robo-rl[video]'"
    return str(no_opengl_message(problems))


def _draw(scratch: Path, kind: str) -> str | None:
    """Run the rendering process; return None, or the last line of its error output."""
    env = {**opengl_environment(kind), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", __name__, str(scratch)]
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return f"still not done after {_TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    return last_line(done.stderr, f"exit status {done.returncode}")


def _main(scratch: Path) -> None:
    """Render the frames of a job of ``_write_job``, in the rendering process."""
    import imageio_ffmpeg
    import mujoco

    job = json.loads((scratch / "job.json").read_text())
    model = mujoco.MjModel.from_binary_path(str(scratch / "model.mjb"))
    # multisampling costs only milliseconds here
    draw_fast(model, job["width"], job["height"], samples=4)
    model.vis.headlight.ambient, model.vis.headlight.diffuse = [0.35] * 3, [0.45] * 3
    clips = [np.load(scratch / f"{index}.npz") for index in range(job["clips"])]
    columns = math.ceil(math.sqrt(len(clips)))
    rows = math.ceil(len(clips) / columns)
    encode: Any = imageio_ffmpeg.write_frames  # its type hints forbid a documented None
    writer = encode(
        str(scratch / "out.mp4"),
        (columns * job["width"], rows * job["height"]),
        fps=job["fps"],
        codec="libx264",
        quality=None,
        macro_block_size=2,
        output_params=["-crf", "30", "-preset", "slow", "-threads", "1", "-movflags", "+faststart"],
    )
    writer.send(None)
    with mujoco.Renderer(model, job["height"], job["width"]) as renderer:
        for frame in _frames(model, renderer, clips, columns, job):
            writer.send(np.ascontiguousarray(frame))
    writer.close()


def _frames(
    model: Any, renderer: Any, clips: Sequence[Any], columns: int, job: Mapping[str, Any]
) -> Iterator[np.ndarray]:
    import mujoco

    data = mujoco.MjData(model)
    camera = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, job["camera"])
    width, height = job["width"], job["height"]
    rows = math.ceil(len(clips) / columns)
    page = np.zeros((rows * height, columns * width, 3), np.uint8)
    qpos = [clip["qpos"] for clip in clips]
    last = max(map(len, qpos)) + round(_LINGER_S * job["fps"])
    for t in range(last):
        for index, clip in enumerate(clips):
            top, left = index // columns * height, index % columns * width
            tile = page[top : top + height, left : left + width]
            if t < len(qpos[index]):
                _place(model, data, qpos[index][t], clip)
                renderer.update_scene(data, camera)
                tile[:] = renderer.render()
            if t >= len(qpos[index]) - 1:
                _frame(tile, _GOOD if clip["success"] else _BAD)
        yield page


def _place(model: Any, data: Any, qpos: np.ndarray, clip: Any) -> None:
    import mujoco

    data.qpos[:] = qpos
    goals = [key for key in clip.files if key.startswith("goal.")]
    goal = {key.removeprefix("goal."): clip[key][None] for key in goals}
    pos, quat = mocap_markers(model, goal, 1)
    data.mocap_pos[:], data.mocap_quat[:] = pos[0], quat[0]
    mujoco.mj_forward(model, data)


def _frame(tile: np.ndarray, colour: tuple[int, int, int]) -> None:
    for edge in (tile[:_BORDER], tile[-_BORDER:], tile[:, :_BORDER], tile[:, -_BORDER:]):
        edge[:] = colour


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
