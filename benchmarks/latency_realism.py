"""Benefit of training with a robot's latency: two arms, deployed on a robot with latency.

A simulated robot sends its readings ``--latency`` seconds late, from a separate process, over DDS.
For each seed a policy is trained without latency. The first one drives the robot and is recorded,
and ``robo-rl deploy latency`` identifies the latency from the recording. For each seed a second
policy is trained with that latency; all other settings are equal. Then both drive the robot, and
their successes are counted. The training uses only the latency from the recording.

Runs are saved under ``--out``, and figures of each seed and arm under ``--results``, in a folder
per experiment and latency; both resume. Deployment requires an otherwise idle machine.

    python benchmarks/latency_realism.py [--json FILE] [--experiment lift_reactive]
        [--latency 0.06] [--seeds 3] [--episodes 100] [--redo]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from _simulated_robot import simulated_robot

from robo_rl.bench.results.cell_record import read_json
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.stats.across_runs import student_interval

KEPT = Path(__file__).parent / "results" / "latency_realism"
ARMS = {"without": False, "with": True}
FITTED = "fitted.json"


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    make_directory(args.out)
    cells = [(seed, arm) for seed in range(args.seeds) for arm in ARMS]
    found = {cell: _cell(*cell, args) for cell in cells}
    for (seed, arm), cell in found.items():
        print(f"seed {seed} {arm:8} exported {cell['exported']:.1%}  deployed {_rate(cell)}")
    gains = [_value(found[seed, "with"]) - _value(found[seed, "without"]) for seed in _seeds(args)]
    low, high = student_interval(gains) if len(gains) > 1 else (None, None)
    results: dict[str, Any] = {
        "added_latency_s": args.latency,
        "fitted": json.loads((args.results / FITTED).read_text()),
        "cells": {f"{seed} {arm}": cell for (seed, arm), cell in found.items()},
        "gain": {"value": sum(gains) / len(gains), "low": low, "high": high, "seeds": len(gains)},
    }
    interval = "" if low is None else f" [{low:+.1%}, {high:+.1%}]"
    print(f"gain {results['gain']['value']:+.1%}{interval} of {len(gains)} seeds")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _cell(seed: int, arm: str, args: argparse.Namespace) -> dict[str, Any]:
    """Return the saved result of a seed's arm with so many episodes, or compute it."""
    path = args.results / f"{arm}_{seed}.json"
    if path.exists() and not args.redo:
        kept = dict(read_json(path, "delete it, and the policy is deployed again"))
        if kept["success"]["n"] == args.episodes:
            return kept
    late = [_fitted(args)] if ARMS[arm] else []
    bundle = train(f"{arm}_{seed}", seed, late, args)
    deploy = Path(__file__).with_name("deploy_latency.py")
    words = [str(bundle), "--latency", str(args.latency), "--episodes", str(args.episodes)]
    scratch = args.out / f"{path.stem}.json"
    _run([str(deploy), *words, "--minutes", "0", "--json", str(scratch)])
    write_file(path, scratch.read_bytes())
    return json.loads(path.read_text())


def _fitted(args: argparse.Namespace) -> Path:
    """Return a config file with the latency identified from a recording of the robot."""
    kept, config = args.results / FITTED, args.out / "latency.yaml"
    if not kept.exists() or (args.redo and not config.exists()):
        bundle = train("without_0", 0, [], args)
        record(bundle, args.out / "recordings", args)
        fit = ["deploy", "latency", str(args.out / "recordings"), "--json", str(kept)]
        _run(["-m", "robo_rl", *fit])
    write_file(config, json.dumps({"env": json.loads(kept.read_text())["env"]}).encode())
    return config


def train(name: str, seed: int, late: Sequence[Path], args: argparse.Namespace) -> Path:
    """Run or resume an experiment; return its bundle."""
    experiment = args.out / f"{name}.yaml"
    base = [args.experiment, *(str(path.absolute()) for path in late)]
    content = {"base": base, "name": name, "seed": seed}
    write_file(experiment, json.dumps(content, indent=2).encode())
    _run(["-m", "robo_rl", "run", str(experiment), "--out", str(args.out)])
    return next((args.out / name).glob("*-export")) / "bundle"


def record(bundle: Path, folder: Path, args: argparse.Namespace) -> None:
    """Record a policy on the robot with latency."""
    with slow_robot(args):
        words = ["deploy", str(bundle), "--activate", "--record", str(folder)]
        words += ["--seconds", str(args.record_s), f"transport.domain={args.domain}"]
        _run(["-m", "robo_rl", *words])


def slow_robot(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Return the context of a simulated robot with latency."""
    words = ["--domain", str(args.domain), f"sensor_delay.latency_s={args.latency}"]
    return simulated_robot(words)


def _run(words: Sequence[str]) -> None:
    subprocess.run([sys.executable, *words], check=True)


def _seeds(args: argparse.Namespace) -> range:
    return range(args.seeds)


def _value(cell: dict[str, Any]) -> float:
    return cell["success"]["value"]


def _rate(cell: dict[str, Any]) -> str:
    found = cell["success"]
    return f"{found['value']:.1%} [{found['low']:.1%}, {found['high']:.1%}] of {found['n']}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--experiment", default="lift_reactive")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=100, help="of each policy, deployed")
    parser.add_argument("--latency", type=float, default=0.06, help="of every reading, in s")
    parser.add_argument("--record-s", type=float, default=60.0, help="how long is recorded")
    parser.add_argument("--out", type=Path, default=Path("runs/latency_realism"))
    parser.add_argument("--results", type=Path, default=KEPT, help="folder of what is kept")
    parser.add_argument("--redo", action="store_true", help="deploy anew, runs stay")
    parser.add_argument("--domain", type=int, default=200 + os.getpid() % 30)
    args = parser.parse_args()
    kind = f"{Path(args.experiment).stem}_{1e3 * args.latency:.0f}ms"
    args.out, args.results = args.out / kind, args.results / kind
    return args


if __name__ == "__main__":
    main()
