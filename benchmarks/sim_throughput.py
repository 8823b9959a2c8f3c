"""Steps per second of ``SimEnv``, bare physics and AsyncVectorEnv, by backend.

All variants step the same model of ``lift_cube`` with the same random valid actions, each held for
a control step, with one call per control step. They use the same number of threads or the same GPU.
Bare physics is ``mujoco.rollout`` for ``mujoco_cpu`` and ``mujoco_warp.step`` for ``mujoco_warp``.
``SimEnv`` adds observations, rewards, terminations and resets. A repeat is one whole episode, so
that each includes a reset of every env. The variants alternate every ten control steps; bare
physics starts from the states of ``SimEnv``. Reported are medians over the repeats; the ratio is
the median of the repeats' ratios.

    python benchmarks/sim_throughput.py [--backend all] [--json FILE] [--plot FILE]
        [--envs 16 64 256 1024] [--repeats 5]

Warp on a CPU is meant for tests, not for speed; it is measured with few envs and repeats.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from _bare_physics import SIDES, timed, turns

ASYNC_ENVS = 16  # one process per env
BACKENDS = tuple(SIDES)
SLOW_ENVS, SLOW_REPEATS = 256, 2


def main() -> None:
    args = _arguments()
    backends = BACKENDS if args.backend == "all" else (args.backend,)
    results: dict[str, dict[str, dict[str, float]]] = {}
    print(f"lift_cube, {os.cpu_count()} cores; physics steps/s, median of {args.repeats}")
    print(
        f"{'':12}{'envs':>6}{'steps/s':>12}{'bare':>12}{'ratio':>8}{'env steps/s':>13}{'kB/env':>9}"
    )
    for backend in backends:
        results[backend] = measured(backend, args.envs, args.repeats)
    if "mujoco_cpu" in backends:
        results["gym_async"] = {str(ASYNC_ENVS): asynchronous(args.repeats)}
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")
    if args.plot:
        args.plot.write_text(drawn({name: results[name] for name in backends}))


def measured(backend: str, sizes: list[int], repeats: int) -> dict[str, dict[str, float]]:
    """Return a row for every number of envs."""
    import torch

    slow = backend == "mujoco_warp" and not torch.cuda.is_available()
    rows: dict[str, dict[str, float]] = {}
    for num_envs in sizes:
        if slow and num_envs > SLOW_ENVS:
            continue
        row = measure(backend, num_envs, SLOW_REPEATS if slow else repeats)
        if backend == "mujoco_cpu":
            row["bytes_per_env"] = memory(num_envs)
        rows[str(num_envs)] = row
        report(backend, num_envs, row)
    return rows


def asynchronous(repeats: int) -> dict[str, float]:
    """Return a row for Gymnasium's AsyncVectorEnv."""
    bare = measure("mujoco_cpu", ASYNC_ENVS, repeats)["bare_steps_per_s"]
    speed, size = measure_async(ASYNC_ENVS, repeats)
    row = {"steps_per_s": speed, "bare_steps_per_s": bare, "ratio": speed / bare}
    row["bytes_per_env"] = size
    report("gym_async", ASYNC_ENVS, row)
    return row


def report(backend: str, num_envs: int, row: dict[str, float]) -> None:
    figures = f"{row['steps_per_s']:12,.0f}{row['bare_steps_per_s']:12,.0f}{row['ratio']:8.2f}"
    figures += f"{row['env_steps_per_s']:13,.0f}" if "env_steps_per_s" in row else " " * 13
    figures += f"{row['bytes_per_env'] / 1e3:9,.0f}" if "bytes_per_env" in row else ""
    print(f"{backend:12}{num_envs:6}{figures}", flush=True)


def drawn(results: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """Plot env steps per second by number of envs, and bare physics; both axes log."""
    from robo_rl.report.charts import ChartAxis
    from robo_rl.report.line_figure import FigureFrame, lines_figure

    lines: dict[str, list[tuple[float, float]]] = {}
    for backend, rows in results.items():
        points = [(float(num), row["env_steps_per_s"], row["ratio"]) for num, row in rows.items()]
        lines[backend] = [(num, speed) for num, speed, _ in points]
        lines[f"{backend}, bare physics"] = [(num, speed / ratio) for num, speed, ratio in points]
    places = [point for line in lines.values() for point in line]
    sizes, speeds = sorted({x for x, _ in places}), [y for _, y in places]
    low, high = math.floor(math.log10(min(speeds))), math.ceil(math.log10(max(speeds)))
    x = ChartAxis(math.log10(sizes[0]), math.log10(sizes[-1]) + 1e-9, sizes, log=True)
    y = ChartAxis(low, high, [10.0**power for power in range(low, high + 1)], log=True)
    return lines_figure(FigureFrame("lift_cube: env steps a second", "envs", x, y), lines)


def make_env(num_envs: int, backend: str = "mujoco_cpu") -> Any:
    from robo_rl.config.registry import load
    from robo_rl.env.mujoco.sim_env import SimEnv

    task = load("tasks", "lift_cube")
    cfg = SimEnv.Config.model_validate({"backend": backend})
    return SimEnv(cfg, task(task.Config()), num_envs)


def measure(backend: str, num_envs: int, repeats: int) -> dict[str, float]:
    """Return medians: physics steps/s of both, env steps/s of SimEnv, and their ratio."""
    import torch

    env = make_env(num_envs, backend)
    bare = SIDES[backend](env)
    env.reset(0)
    generator, steps = torch.Generator().manual_seed(0), env.max_episode_steps
    rows = [turns(env, bare, steps, generator) for _ in range(repeats + 1)]
    seconds = np.array(rows)[1:]  # 0 is the warm-up
    env.close()
    bare.close()
    ours, theirs = num_envs * steps / np.median(seconds, axis=0)
    return {
        "steps_per_s": float(ours * bare.substeps),
        "bare_steps_per_s": float(theirs * bare.substeps),
        "env_steps_per_s": float(ours),
        "ratio": float(np.median(seconds[:, 1] / seconds[:, 0])),
    }


def memory(num_envs: int) -> float:
    """Return the bytes that an env adds to a fresh process's resident set."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grown_bytes, (num_envs,)) / num_envs


def _grown_bytes(num_envs: int) -> int:
    warm = make_env(1)
    _few_steps(warm)
    before = _resident_bytes()
    env = make_env(num_envs)
    _few_steps(env)
    return _resident_bytes() - before


def _few_steps(env: Any) -> None:
    import torch

    env.reset(0)
    for _ in range(3):
        env.step(torch.zeros(env.num_envs, env.act_spec.size))


def _resident_bytes(pid: int | None = None) -> int:
    pages = int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class PlainEnv(gymnasium.Env):
    """The same model, stepped by ``mj_step``: sensors as observation, controls as action."""

    def __init__(self, xml: str, qpos: np.ndarray, dt_s: float, episode_steps: int) -> None:
        import mujoco

        self.step_physics = mujoco.mj_step
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.data = mujoco.MjData(self.model)
        self.qpos, self.episode_steps = qpos, episode_steps
        self.substeps = round(dt_s / self.model.opt.timestep)
        low, high = self.model.actuator_ctrlrange.T
        self.action_space = gymnasium.spaces.Box(low, high, dtype=np.float64)
        size = (self.model.nsensordata,)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, size, np.float64)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple:
        """Reset to the start state."""
        super().reset(seed=seed)
        self.count, self.data.time = 0, 0.0
        self.data.qpos[:], self.data.qvel[:] = self.qpos, 0.0
        self.step_physics(self.model, self.data)
        return self.data.sensordata.copy(), {}

    def step(self, action: np.ndarray) -> tuple:
        """Take one control step."""
        self.data.ctrl[:] = action
        self.step_physics(self.model, self.data, self.substeps)
        self.count += 1
        reward = -float(np.abs(self.data.sensordata[:3]).sum())
        over = self.count == self.episode_steps
        return self.data.sensordata.copy(), reward, False, over, {}


def measure_async(num_envs: int, repeats: int) -> tuple[float, float]:
    """Return median physics steps/s and bytes per env, with one process per env."""
    import torch
    from gymnasium.vector import AsyncVectorEnv

    from robo_rl.testing.env import random_act

    env = make_env(num_envs)
    env.reset(0)
    steps, task = env.max_episode_steps, env.task
    settings = task.scene().to_xml(), env.view.qpos[0].numpy().copy(), env.dt_s, steps
    vector = AsyncVectorEnv([lambda: PlainEnv(*settings)] * num_envs, context="spawn")
    act = random_act(env.act_spec, num_envs, steps, torch.Generator().manual_seed(0))
    ctrl = [task.control(env.view, a).double().numpy() for a in act.unbind(1)]
    vector.reset(seed=0)
    seconds = [timed(lambda: [vector.step(c) for c in ctrl]) for _ in range(repeats + 1)][1:]
    size = sum(_resident_bytes(process.pid) for process in vector.processes) / num_envs
    substeps = round(env.dt_s / task.scene().option.timestep)
    vector.close()
    env.close()
    return num_envs * steps * substeps / statistics.median(seconds), size


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    choices = [*BACKENDS, "all"]
    parser.add_argument("--backend", choices=choices, default="mujoco_cpu")
    parser.add_argument("--plot", type=Path, help="draw them into this SVG file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--envs", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
