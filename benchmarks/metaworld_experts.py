"""Success and speed of Meta-World's scripted experts on all 50 tasks, without and with noise.

An episode lasts until success, at most Meta-World's own limit of 500 steps. ``success`` maps a time
limit to the share of episodes that succeed within it. ``steps`` has the mean, median and 90 %
quantile of the steps to success. ``env_steps_per_core_s`` are env steps per second of processor
time of the workers, resets included, which other processes on the machine hardly change.
``slow_methods`` are those that a task defines itself, so that ``metaworld_fast`` keeps them.

    python benchmarks/metaworld_experts.py [--json FILE] [--episodes 40] [--tasks push-v3,reach-v3]

With ``--json`` a second call measures only the tasks that the file lacks.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robo_rl.core.atomic_files import write_file
from robo_rl.core.seeding import make_generator
from robo_rl.env.gym_envs.metaworld import MetaWorld

NOISES = (0.0, 0.3)
LIMITS = (200, 500)
PATIENT: dict[str, Any] = {"workers": 2, "start_timeout_s": 1200.0, "step_timeout_s": 600.0}
Numbers = dict[str, Any]


def main() -> None:
    args = _arguments()
    found = _kept(args.json, args.episodes)
    print(f"{'task':30}{'noise':>6}" + "".join(f"{f'in {n}':>8}" for n in LIMITS) + "   mean  /s")
    for task in args.tasks or all_tasks():
        if task not in found["tasks"]:
            found["tasks"][task] = {
                **{str(noise): measure(task, noise, args.episodes) for noise in NOISES},
                "slow_methods": slow_methods(task),
            }
            _keep(args.json, found)
        for noise in NOISES:
            print(_row(task, noise, found["tasks"][task][str(noise)]), flush=True)


def measure(task: str, noise: float, episodes: int) -> Numbers:
    """Return success within each limit, steps to success, and env steps per second."""
    cfg = MetaWorld.Config(task=task, max_episode_steps=max(LIMITS), **PATIENT)
    with closing(MetaWorld(cfg, episodes)) as env:
        env.reset(0)
        expert = env.expert(episodes, make_generator("experts", 0), noise)
        ends = torch.zeros(episodes, dtype=torch.int64)  # step of the first episode's end
        succeeded = torch.zeros(episodes, dtype=torch.bool)
        start, count = _cpu_seconds(env.worker_pids), 0
        while not ends.all():
            step, count = env.step(expert.act(env.view).act), count + 1
            over = (step.terminated | step.truncated) & (ends == 0)
            ends[over], succeeded = count, succeeded | (over & step.terminated)
        seconds = _cpu_seconds(env.worker_pids) - start
    taken = ends[succeeded].tolist()
    return {
        "success": {str(limit): sum(n <= limit for n in taken) / episodes for limit in LIMITS},
        "steps": _spread(taken),
        "env_steps_per_core_s": round(episodes * count / seconds),
    }


def slow_methods(task: str) -> list[str]:
    """Return the methods that the task's class defines, of those that ``metaworld_fast`` has."""
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    from robo_rl.env.gym_envs.metaworld_fast import own_methods

    return own_methods(ALL_V3_ENVIRONMENTS[task])


def all_tasks() -> list[str]:
    """Return the names of Meta-World's tasks."""
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    return sorted(ALL_V3_ENVIRONMENTS)


def _cpu_seconds(pids: list[int]) -> float:
    """Return the processor time of processes in s, of user and system, from Linux's ``/proc``."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def _spread(taken: list[int]) -> Numbers | None:
    if not taken:
        return None
    median, high = np.percentile(taken, [50, 90])
    return {"mean": round(float(np.mean(taken)), 1), "p50": float(median), "p90": float(high)}


def _row(task: str, noise: float, found: Numbers) -> str:
    shares = "".join(f"{found['success'][str(limit)]:8.0%}" for limit in LIMITS)
    mean = found["steps"]["mean"] if found["steps"] else float("nan")
    return f"{task:30}{noise:6.1f}{shares}{mean:7.0f}{found['env_steps_per_core_s']:7}"


def _kept(path: Path | None, episodes: int) -> Numbers:
    """Return the earlier results of as many episodes, if there are any."""
    if path is not None and path.exists():
        found = json.loads(path.read_text())
        if found["episodes"] == episodes:
            return found
    return {"episodes": episodes, "tasks": {}}


def _keep(path: Path | None, found: Numbers) -> None:
    if path is not None:
        write_file(path, (json.dumps(found, indent=1) + "\n").encode())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--episodes", type=int, default=40, help="of every task and noise")
    parser.add_argument("--tasks", default="", help="only these, with commas")
    args = parser.parse_args()
    args.tasks = [task for task in args.tasks.split(",") if task]
    if unknown := [task for task in args.tasks if task not in all_tasks()]:
        parser.error(f"Meta-World has no task '{unknown[0]}'")
    return args


if __name__ == "__main__":
    main()
