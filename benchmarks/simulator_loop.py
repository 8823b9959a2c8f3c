"""Env steps a second of Isaac Lab and mjlab through ``RemoteEnv``, over the simulator's own loop.

The simulator's own loop steps the same task in its interpreter, without robo-rl. Both step random
actions in turns within one run; reported are medians of the repeats, and of their ratios. An
interpreter that does not exist is left out (``robo-rl env create mjlab``). Isaac Lab's assets come
from NVIDIA's server, or from the folder in ISAACSIM_ASSET_ROOT.

    python benchmarks/simulator_loop.py [--json FILE] [--envs 16 256] [--repeats 7] [--steps 50]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

import torch

from robo_rl.env.remote.env import RemoteEnv
from robo_rl.env.remote.interpreters import find_interpreter
from robo_rl.testing.env import random_act

TASKS = {
    "isaaclab": ("Isaac-Cartpole", "Isaac-Cartpole-Direct"),
    "mjlab": ("Mjlab-Cartpole-Balance",),
}


@contextmanager
def own_loop(
    python: str, simulator: str, task: str, num_envs: int, steps: int
) -> Generator[Callable[[], float]]:
    """Yield what steps the simulator's own envs and returns the seconds."""
    script = Path(__file__).with_name("_own_loop.py")
    words = [python, str(script), simulator, task, str(num_envs), str(steps)]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said, heard = process.stdin, process.stdout

        def run() -> float:
            said.write("\n")
            said.flush()
            return float(heard.readline())

        assert heard.readline() == "ready\n", f"{simulator}'s own loop did not start: {words}"
        try:
            yield run
        finally:
            said.close()
            process.kill()


def measured(
    python: str, simulator: str, task: str, num_envs: int, repeats: int, steps: int
) -> dict[str, float]:
    """Return env steps a second of both sides, and their ratio."""
    kwargs = {"task": task, "device": "cpu", "act_limit": 1.0}
    cfg = RemoteEnv.Config(adapter=simulator, python=python, kwargs=kwargs)
    rows: list[tuple[float, float]] = []
    with (
        closing(RemoteEnv(cfg, num_envs)) as env,
        own_loop(python, simulator, task, num_envs, steps) as own,
    ):
        env.reset(0)
        act = random_act(env.act_spec, num_envs, steps, torch.Generator().manual_seed(0))
        for _ in range(repeats + 1):
            begun = time.perf_counter()
            for each in act.unbind(1):
                env.step(each)
            rows.append((time.perf_counter() - begun, own()))
    ours, theirs = zip(*rows[1:], strict=True)  # the first one warms up
    rate = num_envs * steps
    return {
        "ours": rate / statistics.median(ours),
        "own": rate / statistics.median(theirs),
        "ratio": statistics.median(b / a for a, b in rows[1:]),
    }


def main() -> None:
    args = _arguments()
    found: dict[str, dict[str, dict[str, float]]] = {}
    print(f"{os.cpu_count()} cores; env steps/s on the processor, medians of {args.repeats}")
    print(f"{'task':26}{'envs':>6}{'own loop':>12}{'robo-rl':>12}{'ratio':>8}")
    for simulator, tasks in TASKS.items():
        python = find_interpreter(simulator)
        if not python:
            print(f"{simulator:26}left out: robo-rl env create {simulator}")
            continue
        for task in tasks:
            for num_envs in args.envs:
                row = measured(str(python), simulator, task, num_envs, args.repeats, args.steps)
                found.setdefault(task, {})[str(num_envs)] = row
                rates = f"{row['own']:12,.0f}{row['ours']:12,.0f}{row['ratio']:8.2f}"
                print(f"{task:26}{num_envs:6}{rates}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--envs", type=int, nargs="+", default=[16, 256])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
