"""Overhead of a step of a remote env, in addition to the simulator's own time.

A worker reports the time in its adapter's functions. The rest of the time from the actions to the
step is the protocol: two messages, copies into and out of shared memory, checks for non-finite
values, and wake-ups. The built-in point mass, a few array operations, shows the protocol alone. It
is compared with the same world stepped in this process. robosuite's Lift, where its interpreter
exists (``robo-rl env create robosuite``), shows the overhead on a real simulator. The variants
alternate; reported are medians over the repeats.

    python benchmarks/remote_overhead.py [--json FILE] [--envs 16 256] [--repeats 9] [--steps 300]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from robo_rl.env.remote.env import RemoteEnv
from robo_rl.env.remote.interpreters import find_interpreter
from robo_rl.env.serve import point_mass_world
from robo_rl.testing.env import random_act

REAL_ENVS = 2
REAL_STEPS = 20


def main() -> None:
    args = _arguments()
    results: dict[str, dict[str, dict[str, float]]] = {"point_mass": {}, "robosuite": {}}
    print(f"{os.cpu_count()} cores; µs a step, median of {args.repeats}")
    print(f"{'':12}{'envs':>6}{'wall':>10}{'world':>10}{'protocol':>10}{'share':>8}{'here':>10}")
    for num_envs in args.envs:
        world = point_mass_world.make_all(num_envs)
        env = RemoteEnv(RemoteEnv.Config(adapter="point_mass"), num_envs)
        row = measure(env, world, args.repeats, args.steps)
        results["point_mass"][str(num_envs)] = row
        report("point_mass", num_envs, row)
    if find_interpreter("robosuite"):
        for workers in (1, REAL_ENVS):
            cfg = RemoteEnv.Config(adapter="robosuite", kwargs={"task": "Lift"}, workers=workers)
            row = measure(RemoteEnv(cfg, REAL_ENVS), None, args.repeats, REAL_STEPS)
            name = f"{REAL_ENVS} in {workers}"
            results["robosuite"][name] = row
            report("robosuite", name, row)
    else:
        print("robosuite    left out: robo-rl env create robosuite")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def measure(env: RemoteEnv, world: Any, repeats: int, steps: int) -> dict[str, float]:
    """Return medians in µs per step and the protocol's fraction; close the env."""
    rows: list[dict[str, float]] = []
    with closing(env):
        env.reset(0)
        act = random_act(env.act_spec, env.num_envs, steps, torch.Generator().manual_seed(0))
        for _ in range(repeats + 1):
            row = _remote(env, act)
            if world is not None:
                row["here"] = _here(world, act)
            rows.append(row)
    return {name: statistics.median(row[name] for row in rows[1:]) for name in rows[0]}


def _remote(env: RemoteEnv, act: torch.Tensor) -> dict[str, float]:
    before, start = env.busy_s, time.perf_counter()
    for act_t in act.unbind(1):
        env.step(act_t)
    wall = time.perf_counter() - start
    world, scale = env.busy_s - before, 1e6 / act.shape[1]
    protocol = wall - world
    figures = {"wall": wall * scale, "world": world * scale, "protocol": protocol * scale}
    return {**figures, "share": protocol / wall}


def _here(world: Any, act: torch.Tensor) -> float:
    world.reset(list(range(act.shape[0])))
    start = time.perf_counter()
    for act_t in act.unbind(1):
        world.step(act_t.numpy())
    return (time.perf_counter() - start) * 1e6 / act.shape[1]


def report(name: str, envs: int | str, row: dict[str, float]) -> None:
    figures = "".join(f"{row[key]:10,.0f}" for key in ("wall", "world", "protocol"))
    here = f"{row['here']:10,.0f}" if "here" in row else ""
    print(f"{name:12}{envs:>6}{figures}{row['share']:8.1%}{here}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--envs", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=300)
    return parser.parse_args()


if __name__ == "__main__":
    main()
