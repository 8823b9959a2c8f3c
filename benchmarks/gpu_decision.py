"""Time of a decision of the collector on a GPU, of its physics, and of its policy.

``lift_cube`` on MuJoCo Warp, chunks of eight control steps, a flow of the demo's size with random
weights; episodes are of six ages, so that some end in nearly every chunk. ``physics_ms`` is the
backend alone with the same number of control steps, ``sample_ms`` a sample of the policy.

    python benchmarks/gpu_decision.py [--json FILE] [--envs 1024 4096] [--repeats 3] [--device cuda]

Without a GPU it ends with status 2; ``--device cpu --envs 4`` shows that it runs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _gpu import demanded, milliseconds  # noqa: E402
from gpu_throughput import make_env  # noqa: E402

from robo_rl.config.component import component  # noqa: E402
from robo_rl.data.normalize import Normalizer  # noqa: E402
from robo_rl.env.chunk_env import ChunkEnv  # noqa: E402
from robo_rl.env.mujoco.open_loop import control_sequence  # noqa: E402
from robo_rl.train.rl.collector import Collector  # noqa: E402

CHUNK, DECISIONS, AGES = 8, 10, 6
COLUMNS = ("decision_ms", "physics_ms", "sample_ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, row by row")
    parser.add_argument("--envs", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    args = parser.parse_args()
    device = demanded(args.device)
    results: dict[str, Any] = {"versions": _bare_tree.versions(), "rows": []}
    print(f"{'envs':>8}" + "".join(f"{name:>14}" for name in COLUMNS))
    for num_envs in args.envs:
        results["rows"].append(row := measured(num_envs, device, args.repeats))
        print(f"{num_envs:8}" + "".join(f"{row[name]:14.1f}" for name in COLUMNS), flush=True)
        if args.json:
            args.json.write_text(json.dumps(results, indent=2) + "\n")


def measured(num_envs: int, device: torch.device, repeats: int) -> dict[str, float]:
    """Return the median milliseconds of each part."""
    env = make_env("lift_cube", num_envs, str(device))
    spec = env.obs_spec, env.act_spec, Normalizer.identity(env.obs_spec, env.act_spec)
    policy = component("policies").make({"name": "flow"}).build(*spec).to(device)
    chunks = ChunkEnv(env, obs_horizon=policy.obs_horizon, exec_horizon=CHUNK, gamma=0.99)
    collector = Collector(chunks, torch.Generator(device).manual_seed(0), single_step=False)
    collector.start(1)
    for ids in torch.arange(num_envs, device=device).chunk(AGES):
        env._restart(ids)
        collector.collect(policy, 1)
    decision = milliseconds(lambda: collector.collect(policy, DECISIONS), device, repeats)
    still = torch.zeros(num_envs, CHUNK, env.act_spec.size, device=device)
    ctrl = control_sequence(env.task, env.view, env._clip(still))

    def sample() -> object:
        with torch.no_grad():
            return policy.sample(collector.obs, collector.generator)

    def physics() -> object:
        return env._backend.step(ctrl, env._clock.substeps)

    times = {"physics_ms": physics, "sample_ms": sample}
    found = {name: milliseconds(run, device, repeats * DECISIONS) for name, run in times.items()}
    env.close()
    return {"envs": num_envs, "decision_ms": decision / DECISIONS, **found}


if __name__ == "__main__":
    main()
