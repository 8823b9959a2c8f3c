"""Time from cloning to 95 % success, with physics on a GPU: ``lift_cube``, or an experiment.

The demo's road up to fine-tuning. Every five updates 400 episodes without exploration noise
measure its success, and 400 others in the end that of the policy which the run keeps. With
``--encoder`` the policy sees the cube through the camera on the hand alone, as in the experiment
``lift_cube_pixels``, and Warp's renderer draws. ``--experiment`` takes another experiment, such as
``coloured_table``, with its encoder. Physics, images, policy, critic and buffers are on the device.
A minibatch is a quarter of a block. ``to_95_s`` is the time from the clone to the first
of these evaluations at 95 %, of collecting and updating; ``collect_s`` and ``update_s`` are its
parts, ``to_95_updates`` and ``to_95_steps`` its updates and env steps; ``bc_s`` is cloning with its
evaluation. Demonstrations are collected here, or taken from ``--dataset``, a dataset that was
collected elsewhere. Needs this tree and the wheels of ``robo-rl[train,warp]`` that are missing,
nothing installed, as ``gpu_throughput.py``. A run that was cut off goes on in ``--out``.

    python benchmarks/gpu_train.py [--json FILE] [--dataset DATA.zarr] [--seeds 0 1 2]
        [--encoder conv] [--experiment coloured_table] [--until distill] [--envs 4096]
        [--decisions 4] [--target-kl 0.3] [--updates 40] [KEY=VALUE …]
        [--device cuda] [--learn-on cuda] [--cuda-graphs] [--out runs/gpu_train]

Without a GPU it ends with status 2; with ``--device cpu`` it trains eight envs for two updates,
which shows that it runs and no more. ``--learn-on cpu`` leaves the physics alone on the GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _gpu import demanded  # noqa: E402

from robo_rl.config.models import to_yaml  # noqa: E402
from robo_rl.core.atomic_files import make_directory, write_file  # noqa: E402
from robo_rl.train.pipeline.run import run_experiment  # noqa: E402

SUCCESS, NEVER = 0.95, 1.01
MINIBATCHES, EVERY = 4, 5
"""Minibatches of a block, and updates between two evaluations."""


def main() -> None:
    args = _arguments()
    args.device = str(demanded(args.device))
    args.learn_on = str(demanded(args.learn_on or args.device))
    if args.experiment:
        args.encoder = ""
    results: dict[str, Any] = {"versions": _bare_tree.versions(), "runs": []}
    shown = (
        "experiment",
        "encoder",
        "envs",
        "decisions",
        "target_kl",
        "device",
        "learn_on",
        "cuda_graphs",
    )
    results |= {name: getattr(args, name) for name in shown}
    print(" ".join(f"{name}={value}" for name, value in results["versions"].items()))
    for seed in args.seeds:
        results["runs"].append(found := trained(args, seed))
        print(json.dumps(found), flush=True)
        if args.json:  # after every run, so that an interruption keeps the results
            args.json.write_text(json.dumps(results, indent=2) + "\n")


def trained(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Run or resume one experiment; return the seconds of its parts and its result."""
    folder = args.out / (args.experiment or args.encoder) / f"seed_{seed}"
    make_directory(folder)
    write_file(file := folder / "experiment.yaml", to_yaml(experiment(args, seed)).encode())
    done = run_experiment(str(file), args.overrides, folder, until=args.until)
    stages = {stage["stage"]: stage for stage in done["stages"]}
    online = stages["online"]["numbers"]
    return {
        "seed": seed,
        **_spent(Path(done["directory"])),
        "bc_s": stages["bc"]["seconds"],
        "updates": online["updates"],
        "env_steps": online["env_steps"],
        "before": online["success_before"],
        "success": online["success"],
        "tasks": {k: v["value"] for k, v in online.items() if k.startswith("success/")},
        **_one_step(stages),
    }


def _one_step(stages: dict[str, Any]) -> dict[str, float]:
    if "distill" not in stages:
        return {}
    distill = stages["distill"]
    return {"one_step": distill["numbers"]["success"], "distill_s": distill["seconds"]}


def experiment(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Return the experiment on MuJoCo Warp."""
    tried, sees = args.device == "cpu", args.encoder not in ("", "state")
    base = args.experiment or ("lift_cube_pixels" if sees else "demo")
    batch = max(args.envs * args.decisions // MINIBATCHES, 1)
    online: dict[str, Any] = {
        "num_envs": args.envs,
        "decisions": args.decisions,
        "updates": args.updates,
        "stop_success": NEVER,
        "periodic_eval": {"every": EVERY, "episodes": 8 if tried else 400},
        "algo": {
            "name": "ppo",
            "minibatch": batch,
            "target_kl": args.target_kl,
            "cuda_graphs": args.cuda_graphs,
        },
    }
    first = {"dataset": {"path": str(args.dataset.absolute())}} if args.dataset else {"collect": {}}
    stages: dict[str, Any] = {**first, "bc": {}, "online": online}
    if args.dataset:
        stages["collect"] = False
    if tried:
        online["updates"] = 2
        stages["bc"] = {"steps": 20}
    return {
        "base": [base],
        "name": "gpu_train",
        "seed": seed,
        "device": args.learn_on,
        "env": {"name": "sim", "backend": {"name": "mujoco_warp", "device": args.device}},
        "eval": {"episodes": 8, "num_envs": 8} if tried else {"episodes": 400, "num_envs": 400},
        "waive": dict.fromkeys(
            ("bc", "online", "distill") if tried else ("distill",), "figures alone"
        ),
        **({"policy": {"encoder": args.encoder}} if sees else {}),
        "stages": stages,
    }


def _spent(directory: Path) -> dict[str, Any]:
    """Return the seconds, updates and env steps until 95 %, and the series of evaluations.

    Where no evaluation reaches it, ``to_95_…`` are None, and the parts are those of the whole run.
    """
    (log,) = directory.glob("*-online/metrics.jsonl")
    spent, series = {"collect_s": 0.0, "update_s": 0.0}, list[dict[str, float]]()
    total = dict(spent)
    reached: dict[str, Any] = {"to_95_s": None, "to_95_updates": None, "to_95_steps": None}
    for number, line in enumerate(log.read_text().splitlines(), start=1):
        row = json.loads(line)
        total = {part: so_far + row[part] for part, so_far in total.items()}
        if reached["to_95_s"] is None:
            spent = total
        success = row.get("eval/success")
        if success is None:
            continue
        marks = {"update": number, "env_steps": row["env_steps"]}
        series.append({**marks, "success": success, **total})
        if success >= SUCCESS and reached["to_95_s"] is None:
            marks = {"to_95_updates": number, "to_95_steps": row["env_steps"]}
            reached = {"to_95_s": sum(spent.values()), **marks}
    return {**reached, **spent, "evaluations": series}


def _arguments() -> argparse.Namespace:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, run by run")
    parser.add_argument("--dataset", type=Path, help="demonstrations; collected here if left out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2] if gpu else [0])
    parser.add_argument("--encoder", default="state", help="conv, resnet18 or vit: sees an image")
    parser.add_argument("--experiment", default="", help="instead of lift_cube, with its encoder")
    parser.add_argument("--until", choices=("online", "distill"), default="online")
    parser.add_argument("--envs", type=int, default=4096 if gpu else 8)
    parser.add_argument("--target-kl", type=float, default=0.3, help="of an update")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--decisions", type=int, default=4, help="of every env, in an update")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    parser.add_argument("--learn-on", default="", help="where networks are; by default as above")
    parser.add_argument("--cuda-graphs", action="store_true", help="of PPO's minibatches")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_train"))
    parser.add_argument("overrides", nargs="*", help="such as stages.bc.steps=500")
    return parser.parse_args()


if __name__ == "__main__":
    main()
