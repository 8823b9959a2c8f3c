"""Images per second, 128 × 128, by number of worlds and rendering processes, and plain MuJoCo's.

All variants render the camera ``front`` of ``lift_cube`` in the same states: starts of its
episodes. ``four samples`` is a loop over one ``mujoco.Renderer`` with MuJoCo's own settings: four
samples per pixel and a shadow map (no light of the scene casts a shadow). ``one sample`` has
neither. Each runs in a separate process. ``pool`` is the renderer of an env on ``mujoco_cpu``,
``warp`` that of an env on ``mujoco_warp``. The variants alternate within a repeat. Reported are
medians over the repeats, and ratios to ``four samples`` of the same repeat. The times of robo-rl's
renderers include the copies in and out, and those to the env's device.

    python benchmarks/camera_frames.py [--backend all|cpu|warp] [--json FILE]
        [--worlds 16 64 256] [--workers 1 2] [--repeats 5]

Warp on a CPU is meant for tests, not for speed; it is measured with few worlds and repeats.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

CAMERA, SIDE = "front", 128
PLAIN = ("four samples", "one sample")
MOST = 32  # states per repeat of a plain variant; limits its time
SLOW_WORLDS = 16
_ALONE = """
import sys, time, mujoco, numpy as np
kind, side, camera = sys.argv[3], int(sys.argv[4]), sys.argv[5]
model = mujoco.MjModel.from_binary_path(sys.argv[1])
model.vis.global_.offwidth = model.vis.global_.offheight = side
quality = model.vis.quality
quality.shadowsize, quality.offsamples = (4096, 4) if kind == "four samples" else (0, 0)
data, states = mujoco.MjData(model), np.load(sys.argv[2])
renderer = mujoco.Renderer(model, side, side)
def draw():
    begun = time.perf_counter()
    for qpos in states:
        data.qpos[:] = qpos
        mujoco.mj_fwdPosition(model, data)
        renderer.update_scene(data, camera)
        renderer.render()
    return time.perf_counter() - begun
draw()
print("ready", flush=True)
for line in sys.stdin:
    print(draw(), flush=True)
"""


class PlainRenderer:
    """A process with one ``mujoco.Renderer``."""

    def __init__(self, name: str, folder: Path, states: int, opengl: str) -> None:
        from robo_rl.env.rendering.offscreen import opengl_environment

        files = [str(folder / name) for name in ("model.mjb", "states.npy")]
        command = [sys.executable, "-c", _ALONE, *files, name, str(SIDE), CAMERA]
        pipe = subprocess.PIPE
        env = opengl_environment(opengl)
        self._states = states
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        self._line()

    def frames_per_s(self) -> float:
        """Return the images per second of one turn."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._states / float(self._line())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline()


class EnvRenderer:
    """The renderer of an env."""

    def __init__(self, backend: str, worlds: int, workers: int = 0) -> None:
        import torch

        from robo_rl.api.cameras import CameraSettings
        from robo_rl.config.component import component
        from robo_rl.env.rendering.camera_set import CameraSet

        task = component("tasks").make("lift_cube").build()
        camera = {"name": CAMERA, "width": SIDE, "height": SIDE}
        cfg = CameraSettings.model_validate(
            {"cameras": [camera], "rendering": {"workers": workers, "timeout_s": 60.0}}
        )
        built = component("backends").make(backend).build()
        self._cameras = CameraSet(task.scene(), cfg, built, worlds)
        start = task.reset(worlds, torch.Generator().manual_seed(0))
        self._qpos, self._worlds = start.qpos.to(built.device), worlds
        self._wait: Callable[[], None] = (
            torch.cuda.synchronize if built.device.type == "cuda" else lambda: None
        )
        self.frames_per_s()  # warm-up

    def frames_per_s(self) -> float:
        """Return the images per second of one turn."""
        begun = time.perf_counter()
        self._cameras.start(self._qpos)()
        self._wait()
        return self._worlds / (time.perf_counter() - begun)

    def close(self) -> None:
        """Close the renderer."""
        self._cameras.close()


def main() -> None:
    args = _arguments()
    results: dict[str, dict[str, float]] = {}
    print(f"lift_cube, {SIDE} x {SIDE}; frames/s, median of {args.repeats}, over '{PLAIN[0]}'")
    for name, frames, ratio in measured(args):
        results[name] = {"frames_per_s": frames, "ratio": ratio}
        print(f"{name:32}{frames:12,.0f}{ratio:9.2f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def measured(args: argparse.Namespace) -> Iterator[tuple[str, float, float]]:
    """Yield (name, frames/s, ratio) of every variant."""
    with tempfile.TemporaryDirectory() as folder:
        opengl = _write(Path(folder))
        plain = {name: PlainRenderer(name, Path(folder), MOST, opengl) for name in PLAIN}
        turns = [[plain[name].frames_per_s() for name in PLAIN] for _ in range(args.repeats)]
        for i, name in enumerate(PLAIN):
            speed = statistics.median(turn[i] for turn in turns)
            yield name, speed, statistics.median(turn[i] / turn[0] for turn in turns)
        for name, make, repeats in sides(args):
            with closing(make()) as ours:
                beside = plain[PLAIN[0]]
                pairs = [(ours.frames_per_s(), beside.frames_per_s()) for _ in range(repeats)]
            speed = statistics.median(pair[0] for pair in pairs)
            yield name, speed, statistics.median(own / other for own, other in pairs)
        for side in plain.values():
            side.close()


def sides(args: argparse.Namespace) -> list[tuple[str, Callable[[], EnvRenderer], int]]:
    """Return name, factory and repeats of the compared variants."""
    import torch

    found: list[tuple[str, Callable[[], EnvRenderer], int]] = []
    for worlds in args.worlds if args.backend != "warp" else ():
        for workers in args.workers:
            name = f"pool, {worlds} worlds, {workers} workers"
            found.append(
                (name, lambda b=worlds, w=workers: EnvRenderer("mujoco_cpu", b, w), args.repeats)
            )
    slow = not torch.cuda.is_available()
    for worlds in args.worlds if args.backend != "cpu" else ():
        if not slow or worlds <= SLOW_WORLDS:
            name = f"warp, {worlds} worlds"
            repeats = 2 if slow else args.repeats
            found.append((name, lambda b=worlds: EnvRenderer("mujoco_warp", b), repeats))
    return found


def _write(folder: Path) -> str:
    """Write the model and some starts for the plain processes; return the OpenGL library."""
    import mujoco
    import numpy as np
    import torch

    from robo_rl.api.cameras import CameraItem, RenderConfig
    from robo_rl.config.component import component
    from robo_rl.env.rendering.pool import RenderPool

    task = component("tasks").make("lift_cube").build()
    model = task.scene().compile()
    mujoco.mj_saveModel(model, str(folder / "model.mjb"), None)
    start = task.reset(MOST, torch.Generator().manual_seed(0))
    np.save(folder / "states.npy", start.qpos.double().numpy())
    with closing(
        RenderPool(model, [CameraItem(name=CAMERA)], 1, [], RenderConfig(workers=1))
    ) as pool:
        return pool.kind


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=["all", "cpu", "warp"], default="cpu")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--worlds", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
