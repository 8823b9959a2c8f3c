"""Offscreen OpenGL: choice of the library, fast rendering settings, poses of mocap bodies.

Shapes: n worlds. A missing or broken OpenGL may abort the process that uses it, so separate
processes test it.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DeviceError

INSTALL = {
    "egl": "apt-get install libegl1 libgl1 libgl1-mesa-dri",
    "osmesa": "apt-get install libosmesa6",
}
"""OpenGL library, in order of preference → command that installs it."""

_RENDER = """
import time, mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><visual><quality shadowsize='0' offsamples='0'/></visual><worldbody>"
    "<light pos='0 0 3'/><geom type='box' size='1 1 1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 128, 128)
renderer.update_scene(data)
assert renderer.render().any(), "the picture is black"
start = time.perf_counter()
renderer.render()
print(f"one 128x128 frame in {1e3 * (time.perf_counter() - start):.1f} ms")
renderer.close()
"""
_TRIAL_S = 120.0


def opengl_backends() -> tuple[str, ...]:
    """Return the OpenGL libraries to try, in order; only MUJOCO_GL's if it is one of them."""
    chosen = os.environ.get("MUJOCO_GL", "")
    return (chosen,) if chosen in INSTALL else tuple(INSTALL)


def opengl_environment(kind: str) -> dict[str, str]:
    """Return the environment variables of a process that renders with this library."""
    env = {**os.environ, "MUJOCO_GL": kind}
    env.pop("PYOPENGL_PLATFORM", None)
    return env


def try_opengl(kind: str) -> tuple[bool, str]:
    """Render one frame with a library in a process of its own.

    Returns:
        Whether it works, and the time of a frame or the problem.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", _RENDER],
            env=opengl_environment(kind),
            capture_output=True,
            text=True,
            timeout=_TRIAL_S,
        )
    except subprocess.TimeoutExpired:
        return False, f"no picture after {_TRIAL_S:g} s"
    if done.returncode:
        return False, last_line(done.stderr, f"status {done.returncode}")
    return True, done.stdout.strip()


@cache
def working_opengl() -> str:
    """Return the first library that renders on this machine.

    Raises:
        DeviceError: None does.
    """
    problems = dict[str, str]()
    for kind in opengl_backends():
        works, said = try_opengl(kind)
        if works:
            return kind
        problems[kind] = said
    raise no_opengl_message(problems)


def no_opengl_message(problems: Mapping[str, str]) -> DeviceError:
    """Return the error for a machine that cannot render; problems is library → problem."""
    reasons = ", ".join(f"{kind}: {problem}" for kind, problem in problems.items())
    return DeviceError(f"no offscreen OpenGL ({reasons})", hint=install_hint(next(iter(problems))))


def install_hint(kind: str) -> str:
    """Return the package to install for a library; for the preferred one if it is unknown."""
    return INSTALL.get(kind, INSTALL["egl"])


def last_line(said: str, otherwise: str) -> str:
    """Return the last line of a process's output, which holds its error."""
    return (said.strip().splitlines() or [otherwise])[-1][:200]


def draw_fast(model: Any, width: int, height: int, samples: int = 0) -> None:
    """Set a model to render fast at a size, before its ``mujoco.Renderer`` is made.

    Shadows are disabled: on a CPU they cost seven times the rest.

    Args:
        model: ``mujoco.MjModel``.
        width: Image width in pixels.
        height: Image height in pixels.
        samples: Number of samples of multisampling.
    """
    model.vis.quality.shadowsize = 0
    model.vis.quality.offsamples = samples
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height


def mocap_markers(
    model: Any,
    goal: Mapping[str, NDArray[Any]],
    num: int,
    fields: Mapping[str, NDArray[Any]] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the poses of the mocap bodies; a goal places the body of its name.

    Args:
        model: ``mujoco.MjModel``.
        goal: Name → (num, 3) position, m, (num, 4) quaternion, wxyz, or (num, 7) both.
        num: n.
        fields: ``body_pos`` and ``body_quat`` of the worlds, name → (n, nbody, …), where they
            differ from the model's; used for bodies without a goal.

    Returns:
        Positions (n, nmocap, 3) and quaternions (n, nmocap, 4).
    """
    rows = model.body_mocapid
    order = [int(np.flatnonzero(rows == i)[0]) for i in range(model.nmocap)]
    own = {"body_pos": model.body_pos[None], "body_quat": model.body_quat[None], **(fields or {})}
    pos, quat = (
        np.broadcast_to(own[name][:, order], (num, len(order), size)).copy()
        for name, size in (("body_pos", 3), ("body_quat", 4))
    )
    for mocap, body in enumerate(order):
        value = goal.get(model.body(body).name)
        if value is None:
            continue
        if value.shape[1:] in ((3,), (7,)):
            pos[:, mocap] = value[:, :3]
        if value.shape[1:] in ((4,), (7,)):
            quat[:, mocap] = value[:, -4:]
    return pos, quat
