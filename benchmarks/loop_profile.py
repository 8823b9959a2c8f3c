"""Profile of fine-tuning: physics, inference, learning.

The loop's own collector and algorithm run on the tasks and methods of the suite ``method_matrix``,
with untrained policies, so that episodes last. ``physics`` is the time in the env (steps, rewards,
resets, observations), ``inference`` the rest of collecting (drawing chains and scoring them),
``learning`` the update. Each is in milliseconds per 1,000 env steps, the median over the updates.
``overlap`` is the upper bound of the speed-up from inference during env steps. ``rest`` is the
upper bound of the speed-up from free inference and learning.

    python benchmarks/loop_profile.py [--json FILE] [--updates 5] [--tasks push-v3,lift_cube]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from robo_rl.bench.suite.suite import CellKey
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.core.seeding import make_generator
from robo_rl.core.suggestions import did_you_mean
from robo_rl.data.normalize import Normalizer
from robo_rl.env.chunk_env import ChunkEnv, ChunkStep
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.rl.collector import Collector
from robo_rl.train.rl.exploration.exploring_policy import with_exploration
from robo_rl.train.rl.loop_config import LoopConfig

METHODS = ("default", "flow_sde", "reinflow", "dppo", "gaussian")
PARTS = ("physics", "inference", "learning")
WARM = 3  # warm-up updates: only the critic learns in the first two


class TimedEnv(ChunkEnv):
    """Counts the seconds of its steps."""

    seconds = 0.0

    def step(self, act: torch.Tensor) -> ChunkStep:
        """Step and add the duration; see ``ChunkEnv``."""
        start = time.perf_counter()
        found = super().step(act)
        self.seconds += time.perf_counter() - start
        return found


def main() -> None:
    args = _arguments()
    plan, results = load_plan("method_matrix"), dict[str, dict[str, dict[str, float]]]()
    print(f"{torch.get_num_threads()} threads, ms per 1,000 env steps, median of {args.updates}")
    print(
        f"{'task':12}{'method':10}" + "".join(f"{part:>11}" for part in (*PARTS, "overlap", "rest"))
    )
    for task in args.tasks:
        for method in METHODS:
            experiment = plan.cell(CellKey(task, method, 1)).experiment
            row = profile(experiment, args.updates)
            results.setdefault(task, {})[method] = row
            print(f"{task:12}{method:10}" + "".join(f"{number:11.2f}" for number in row.values()))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def profile(experiment: Experiment, updates: int) -> dict[str, float]:
    """Return the milliseconds of each part per 1,000 env steps, and the possible speed-ups."""
    cfg: Any = experiment.stages["online"].cfg
    policy_cfg = experiment.policy.cfg
    vec_env = experiment.make_env(cfg.num_envs)
    horizons = {"obs_horizon": policy_cfg.obs_horizon, "exec_horizon": policy_cfg.exec_horizon}
    with closing(TimedEnv(vec_env, **horizons, gamma=experiment.gamma)) as env:
        rows = list(_updates(experiment, cfg, env, WARM + updates))[WARM:]
    found = {part: statistics.median(row[i] for row in rows) for i, part in enumerate(PARTS)}
    physics, inference, learning = found.values()
    total = physics + inference + learning
    overlap = total / (max(physics, inference) + learning)
    return {**found, "overlap": overlap, "rest": total / physics}


def _updates(experiment: Experiment, cfg: LoopConfig, env: TimedEnv, number: int) -> Any:
    """Return (physics, inference, learning) of every update."""
    torch.manual_seed(0)
    normalizer = Normalizer.identity(env.obs_spec, env.act_spec)
    policy = experiment.policy.build(env.obs_spec, env.act_spec, normalizer)
    policy = with_exploration(policy, cfg.exploration, seed=0)
    if policy.cfg.finetune_steps:
        policy.freeze_reference()
    algo = cfg.algo.build(policy, cfg.num_envs, make_generator("minibatch", 0))
    collector = Collector(env, make_generator("explore", 0), single_step=algo.single_step)
    collector.start(0)
    for _ in range(number):
        env.seconds, steps, start = 0.0, collector.env_steps, time.perf_counter()
        rollout, _ = collector.collect(policy, cfg.decisions)
        collected = time.perf_counter()
        algo.update(rollout)
        ended = time.perf_counter()
        scale = 1e6 / (collector.env_steps - steps)
        inference = collected - start - env.seconds
        yield env.seconds * scale, inference * scale, (ended - collected) * scale


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--tasks", default="push-v3,lift_cube", help="of the suite, with commas")
    args = parser.parse_args()
    args.tasks = args.tasks.split(",")
    known = load_plan("method_matrix").suite.tasks
    if unknown := [task for task in args.tasks if task not in known]:
        parser.error(f"no task '{unknown[0]}'; {did_you_mean(unknown[0], known)}")
    return args


if __name__ == "__main__":
    main()
