"""A rendering process: renders rows of states to images, through shared memory.

Shapes: B rows, nq positions. It receives (number, start, stop), renders these rows and answers
(number, None), or (number, problem). It imports no torch, so that it starts fast.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from robo_rl.api.cameras import CameraView
from robo_rl.api.renderer import MOCAP
from robo_rl.env.rendering.offscreen import draw_fast
from robo_rl.env.serve.shared_arrays import Fields, arrays_in
from robo_rl.env.workers.channel import PickleConnection

READY = 0
"""The number of the first answer, sent after a first image."""


class RenderJob(NamedTuple):
    """The first message to a worker; the descriptor of the memory comes with it.

    Args:
        views: Cameras to render for every row.
        fields: Layout of the memory: ``model``, the bytes of a ``mujoco.MjModel``, which may be
            too many for a message; ``qpos`` (B, nq), ``look.<name>`` (B, …), ``picture.<item>``
            (B, 3, height, width), ``progress`` (workers,), which a worker increments per row.
        worker: Index of this worker.
    """

    views: tuple[CameraView, ...]
    fields: Fields
    worker: int


def main(fd: int) -> None:
    """Serve over the socket fd until it closes."""
    # The parent handles the signals, and closes the socket.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    channel = PickleConnection(socket.socket(fileno=fd))
    job, memory = _heard(channel)
    assert memory is not None
    painter = RowRenderer(job, arrays_in(memory, job.fields))
    os.close(memory)
    painter.draw(range(1))  # compiles shaders and tests OpenGL
    answer: tuple[int, str | None] = (READY, None)
    while True:
        (number, start, stop), _ = _heard(channel, answer)
        answer = (number, _problem(painter, range(start, stop)))


def _heard(channel: PickleConnection, answer: tuple[int, str | None] | None = None) -> Any:
    """Send an answer, and return the next message with its descriptor."""
    try:
        if answer is not None:
            channel.send(answer)
        return channel.receive()
    except (EOFError, OSError):
        raise SystemExit from None  # the parent closed the channel, or is gone


def _problem(painter: RowRenderer, rows: Sequence[int]) -> str | None:
    try:
        painter.draw(rows)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


class RowRenderer:
    """Renders rows of the memory.

    Args:
        job: The job.
        arrays: The memory.
    """

    def __init__(self, job: RenderJob, arrays: Mapping[str, Any]) -> None:
        import mujoco

        self._model = mujoco.MjModel.from_binary_path("m.mjb", {"m.mjb": arrays["model"].tobytes()})
        self._data = mujoco.MjData(self._model)
        self._sights, self._qpos = job.views, arrays["qpos"]
        self._progress, self._worker = arrays["progress"], job.worker
        self._pictures = {each.item: arrays[f"picture.{each.item}"] for each in job.views}
        looks = [name.removeprefix("look.") for name in job.fields if name.startswith("look.")]
        self._looks = [(self._home(name), arrays[f"look.{name}"]) for name in looks]
        # MuJoCo ignores geom_pos and geom_quat where geom_sameframe is set: drawn poses clear it.
        if any(name.startswith("geom_") for name in looks):
            self._model.geom_sameframe[:] = 0
        if any(name.startswith("site_") for name in looks):
            self._model.site_sameframe[:] = 0
        sizes = {(each.width, each.height) for each in job.views}
        self._renderers = {size: self._renderer(*size) for size in sizes}

    def draw(self, rows: Sequence[int]) -> None:
        """Render all cameras for each of the rows."""
        import mujoco

        for row in rows:
            self._data.qpos[:] = self._qpos[row]
            for home, look in self._looks:
                home[...] = look[row]
            mujoco.mj_fwdPosition(self._model, self._data)
            for sight in self._sights:
                renderer = self._renderers[sight.width, sight.height]
                renderer.update_scene(self._data, sight.camera)
                self._pictures[sight.item][row] = renderer.render().transpose(2, 0, 1)
            self._progress[self._worker] += 1

    def _home(self, name: str) -> Any:
        """Return the array of the model or of its data that holds a look."""
        return getattr(self._data if name in MOCAP else self._model, name)

    def _renderer(self, width: int, height: int) -> Any:
        import mujoco

        draw_fast(self._model, width, height)
        return mujoco.Renderer(self._model, height, width)
