"""Physics steps per second through ``SimEnv`` against bare ``mujoco.rollout`` and AsyncVectorEnv.

All sides step the same model of ``lift_cube`` with the same random valid actions, held for a
control step each, one call a control step, on the same number of threads. ``SimEnv`` adds
observations, rewards, ends and resets: a repeat is one whole episode, so that each holds a reset
of every env. The sides take turns every ten control steps, the bare one from the states at which
``SimEnv`` began them. Reported are medians over the repeats, the ratio's of each repeat's own.

    python benchmarks/sim_throughput.py [--json FILE] [--envs 16 64 256 1024] [--repeats 5]
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

ASYNC_ENVS = 16  # one process an env
TURN_STEPS = 10


def main() -> None:
    args = _arguments()
    results: dict[str, dict[str, dict[str, float]]] = {"mujoco_cpu": {}, "gym_async": {}}
    print(f"lift_cube, {os.cpu_count()} cores; physics steps/s, median of {args.repeats}")
    print(f"{'':12}{'envs':>6}{'steps/s':>12}{'bare':>12}{'ratio':>8}{'kB/env':>9}")
    for num_envs in args.envs:
        speed, _, ratio = measure(num_envs, args.repeats)
        row = {"steps_per_s": speed, "ratio": ratio, "bytes_per_env": memory(num_envs)}
        results["mujoco_cpu"][str(num_envs)] = row
        report("mujoco_cpu", num_envs, row)
    _, bare, _ = measure(ASYNC_ENVS, args.repeats)
    speed, size = measure_async(ASYNC_ENVS, args.repeats)
    row = {"steps_per_s": speed, "ratio": speed / bare, "bytes_per_env": size}
    results["gym_async"][str(ASYNC_ENVS)] = row
    report("gym_async", ASYNC_ENVS, row)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def report(backend: str, num_envs: int, row: dict[str, float]) -> None:
    speed, bare = row["steps_per_s"], row["steps_per_s"] / row["ratio"]
    size = row["bytes_per_env"] / 1e3
    print(f"{backend:12}{num_envs:6}{speed:12,.0f}{bare:12,.0f}{row['ratio']:8.2f}{size:9,.0f}")


def make_env(num_envs: int) -> Any:
    from robo_rl.env.sim import SimEnv
    from robo_rl.registry import load

    task = load("tasks", "lift_cube")
    return SimEnv(SimEnv.Config(), task(task.Config()), num_envs)


def measure(num_envs: int, repeats: int) -> tuple[float, float, float]:
    """Medians: SimEnv and bare in physics steps/s, and their ratio."""
    import torch

    env = make_env(num_envs)
    bare = Bare(env, num_envs)
    env.reset(0)
    generator = torch.Generator().manual_seed(0)
    seconds = np.array([episode(env, bare, generator) for _ in range(repeats + 1)])[
        1:
    ]  # 0 warms up
    env.close()
    bare.close()
    speed = num_envs * env.max_episode_steps * bare.substeps / np.median(seconds, axis=0)
    return float(speed[0]), float(speed[1]), float(np.median(seconds[:, 1] / seconds[:, 0]))


def episode(env: Any, bare: Bare, generator: Any) -> tuple[float, float]:
    """Seconds that SimEnv and bare physics take for one episode of every env."""
    from robo_rl.testing.env import random_act

    seconds = [0.0, 0.0]
    act = random_act(env.act_spec, env.num_envs, env.max_episode_steps, generator)
    for turn, acts in enumerate(act.split(TURN_STEPS, dim=1)):
        start = env.snapshot()["backend"]["state"].numpy()
        ctrl = [env.task.control(env.view, a).double().numpy() for a in acts.unbind(1)]
        sides = (partial(run_sim, env, acts), partial(bare.run, start, ctrl))
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds[side] += timed(sides[side])
    return seconds[0], seconds[1]


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def run_sim(env: Any, act: Any) -> None:
    for act_t in act.unbind(1):
        env.step(act_t)


class Bare:
    """``mujoco.rollout`` with all its memory allocated beforehand and its checks off."""

    def __init__(self, env: Any, num_envs: int) -> None:
        import mujoco
        from mujoco.rollout import Rollout

        model = env.task.scene().compile()
        threads = len(os.sched_getaffinity(0))
        self.substeps = round(env.dt_s / model.opt.timestep)
        self.models, self.pool = [model] * num_envs, Rollout(nthread=threads)
        self.data = [mujoco.MjData(model) for _ in range(threads)]
        shape = num_envs, self.substeps
        self.states = np.empty(
            (*shape, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        )
        self.ctrl = np.empty((*shape, model.nu))
        self.sensors = np.empty((*shape, model.nsensordata))

    def run(self, start: np.ndarray, ctrl: list[np.ndarray]) -> None:
        """One call a control step, each from where the last one ended."""
        state = start.copy()
        for ctrl_t in ctrl:
            self.ctrl[...] = ctrl_t[:, None]
            self.pool.rollout(
                self.models,
                self.data,
                state,
                self.ctrl,
                skip_checks=True,
                nstep=self.substeps,
                state=self.states,
                sensordata=self.sensors,
            )
            state[...] = self.states[:, -1]

    def close(self) -> None:
        """Stop the threads."""
        self.pool.close()


def memory(num_envs: int) -> float:
    """Bytes an env adds to a fresh process, by its resident set."""
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
        """Back to the start state."""
        super().reset(seed=seed)
        self.count, self.data.time = 0, 0.0
        self.data.qpos[:], self.data.qvel[:] = self.qpos, 0.0
        self.step_physics(self.model, self.data)
        return self.data.sensordata.copy(), {}

    def step(self, action: np.ndarray) -> tuple:
        """One control step."""
        self.data.ctrl[:] = action
        self.step_physics(self.model, self.data, self.substeps)
        self.count += 1
        reward = -float(np.abs(self.data.sensordata[:3]).sum())
        over = self.count == self.episode_steps
        return self.data.sensordata.copy(), reward, False, over, {}


def measure_async(num_envs: int, repeats: int) -> tuple[float, float]:
    """Median physics steps/s and bytes an env of a process an env."""
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
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--envs", type=int, nargs="+", default=[16, 64, 256, 1024])
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
