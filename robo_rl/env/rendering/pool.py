"""A pool of processes that render the worlds of an env with OpenGL.

Shapes: B worlds, n rendered at once, W workers, nq positions. States and images are in shared
memory; each worker receives the range of its rows. A worker that dies or hangs ends the pool, so
that every returned image belongs to the requested states.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

import mujoco
import numpy as np
import torch
from torch import Tensor

from robo_rl.api.cameras import CameraItem, CameraView, RenderConfig
from robo_rl.api.renderer import MOCAP, Pending, Pictures
from robo_rl.core.errors import DeviceError
from robo_rl.env.rendering import offscreen
from robo_rl.env.rendering.process import RenderProcess, RenderProcessLostError
from robo_rl.env.rendering.worker import READY, RenderJob
from robo_rl.env.serve.shared_arrays import Fields, arrays_in, layout
from robo_rl.env.threads import usable_cores
from robo_rl.env.workers.pool import shut_down
from robo_rl.env.workers.shared_memory import allocate


class RenderPool:
    """A ``Renderer`` of W processes.

    Args:
        model: ``mujoco.MjModel`` of the worlds.
        cameras: Cameras to render.
        num_envs: B.
        looks: Names of the looks that differ by world.
        cfg: Settings.

    Attributes:
        kind: The OpenGL library that works on this machine.

    Raises:
        DeviceError: There is no OpenGL, or no memory.
    """

    def __init__(
        self,
        model: Any,
        cameras: Sequence[CameraItem],
        num_envs: int,
        looks: Sequence[str],
        cfg: RenderConfig,
    ) -> None:
        self._cfg, self._number = cfg, READY
        self._workers: list[RenderProcess] = []
        self._close = weakref.finalize(self, shut_down, os.getpid(), self._workers)
        self._asked: list[int] = []
        size = min(cfg.workers or usable_cores(), num_envs)
        sights = tuple(camera.view for camera in cameras)
        fields = _fields(model, sights, num_envs, looks, size)
        memory = allocate(layout(fields)[1])
        self._arrays = arrays_in(memory, fields)
        self._arrays["qpos"][:] = model.qpos0
        mujoco.mj_saveModel(model, None, self._arrays["model"])
        for name in looks:
            self._arrays[f"look.{name}"][:] = _nominal(model, name)
        try:
            self.kind = self._start([RenderJob(sights, fields, w) for w in range(size)], memory)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)
        self._shared = {each.item: self._arrays[f"picture.{each.item}"] for each in sights}

    @property
    def pids(self) -> list[int]:
        """Return the process id of each worker."""
        return [worker.pid for worker in self._workers]

    def start(self, qpos: Tensor, looks: Mapping[str, Tensor]) -> Pending:
        """Begin to render n worlds at qpos (n, nq); see ``Renderer``.

        Raises:
            DeviceError: A worker is gone.
        """
        self._demand_open()
        self._wait()  # for images that were not fetched
        num = len(qpos)
        self._arrays["qpos"][:num] = qpos.cpu().numpy()
        for name, value in looks.items():
            self._arrays[f"look.{name}"][:num] = value.cpu().numpy()
        self._number += 1
        bounds = [num * w // len(self._workers) for w in range(len(self._workers) + 1)]
        for w, (begin, end) in enumerate(pairwise(bounds)):
            if end > begin:
                self._workers[w].request(self._number, begin, end)
                self._asked.append(w)
        number, device = self._number, qpos.device
        return lambda: self._fetch(number, num, device)

    def close(self) -> None:
        """End the processes."""
        self._close()

    def _fetch(self, number: int, num: int, device: torch.device) -> Pictures:
        self._demand_open()
        if number != self._number:
            raise DeviceError("pictures were fetched after others had been asked for")
        self._wait()
        copies = {item: torch.from_numpy(rows[:num].copy()) for item, rows in self._shared.items()}
        return {item: rows.to(device) for item, rows in copies.items()}

    def _wait(self) -> None:
        """Wait for all requested workers; an interrupted wait continues before the next request."""
        while self._asked:
            self._await(self._asked[-1], self._number, self._cfg.timeout_s)
            self._asked.pop()

    def _await(self, w: int, number: int, limit_s: float) -> None:
        try:
            self._workers[w].wait(number, limit_s, lambda: int(self._arrays["progress"][w]))
        except RenderProcessLostError as error:
            self._fail(str(error))

    def _demand_open(self) -> None:
        if not self._close.alive:
            raise DeviceError("the processes that draw pictures are closed", hint="make a new env")

    def _fail(self, reason: str) -> NoReturn:
        self.close()
        raise DeviceError(
            "a process that draws pictures was lost",
            found=reason,
            hint="make the env anew; rendering.timeout_s says how long it may hang",
        )

    def _start(self, jobs: Sequence[RenderJob], memory: int) -> str:
        """Find an OpenGL library with the first worker, and start the others with the same one."""
        kind = self._begin_first(jobs[0], memory)
        for job in jobs[1:]:
            self._workers.append(RenderProcess(kind, job, memory))
        for w in range(1, len(jobs)):
            self._await(w, READY, self._cfg.start_timeout_s)
        return kind

    def _begin_first(self, job: RenderJob, memory: int) -> str:
        problems: dict[str, str] = {}
        for kind in offscreen.opengl_backends():
            worker = RenderProcess(kind, job, memory)
            self._workers.append(worker)
            try:
                worker.wait(READY, self._cfg.start_timeout_s, lambda: 0)
            except RenderProcessLostError as error:
                worker.terminate()
                self._workers.remove(worker)
                problems[kind] = str(error)
            else:
                return kind
        raise offscreen.no_opengl_message(problems)


def _fields(
    model: Any, sights: Sequence[CameraView], num_envs: int, looks: Sequence[str], workers: int
) -> Fields:
    """Return the layout of the memory, see ``RenderJob``."""
    fields: Fields = {
        "model": ((mujoco.mj_sizeModel(model),), "uint8"),
        "qpos": ((num_envs, model.nq), "float64"),
    }
    for name in looks:
        one = _nominal(model, name)
        fields[f"look.{name}"] = ((num_envs, *one.shape), str(one.dtype))
    for sight in sights:
        fields[f"picture.{sight.item}"] = ((num_envs, 3, sight.height, sight.width), "uint8")
    return {**fields, "progress": ((workers,), "int64")}


def _nominal(model: Any, name: str) -> np.ndarray:
    if name in MOCAP:
        return dict(zip(MOCAP, offscreen.mocap_markers(model, {}, 1), strict=True))[name][0]
    return getattr(model, name)
