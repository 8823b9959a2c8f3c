"""Improved from logs alone, and what the gate said, beside what both policies really come to.

``lift_offline`` by seeds: ``awr`` as it is, ``ppo`` and ``parl`` in its place, and ``null``, the
same steps of cloning with all weights alike, which tells improvement from more of the same. Values
and truths are discounted returns; values come from the logs alone, with the 95 % interval of
drawing their episodes anew, truths from 400 episodes that nothing was chosen by.

    python benchmarks/offline_gate.py [--json FILE] [--seeds 0 1 2] [--arms awr ppo parl null]

Runs are kept in ``--out``, and gone on with; what came of each under ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from robo_rl.durable import make_directory, write_file
from robo_rl.train.pipeline import run_experiment

KEPT = Path(__file__).parent / "results" / "offline_gate"
ARMS: dict[str, dict[str, Any]] = {
    "awr": {},
    "ppo": {
        "policy": {"finetune_steps": 0},
        "stages": {"offline": {"improver": {"name": "ppo"}}},
    },
    "parl": {"stages": {"offline": {"improver": {"name": "parl"}}}},
    "null": {"stages": {"offline": {"improver": {"name": "awr", "temperature": 1e6}}}},
}
COLUMNS = (
    *("seed", "improver", "success before", "after"),
    *("truth before", "value", "truth after", "value", "answer"),
)


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    found: dict[str, Any] = {}
    for seed in args.seeds:
        for arm in args.arms:
            found[f"{arm}_{seed}"] = cell = _cell(arm, seed, args)
            print(line(arm, seed, cell), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def _cell(arm: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """What is kept of a run, or what comes of it now."""
    path = args.results / f"{arm}_{seed}.json"
    if path.exists() and not args.redo:
        return json.loads(path.read_text())
    folder = args.out / f"{arm}_{seed}"
    make_directory(folder)
    content = {"base": ["lift_offline"], "seed": seed, **ARMS[arm]}
    write_file(file := folder / "experiment.yaml", json.dumps(content).encode())
    stages = run_experiment(str(file), [], folder)["stages"]
    (report,) = [stage for stage in stages if stage["stage"] == "offline"]
    cell = {"answer": report["gate"]["detail"], **report["numbers"]}
    write_file(path, json.dumps(cell, indent=2).encode() + b"\n")
    return json.loads(path.read_text())


def line(arm: str, seed: int, cell: dict[str, Any]) -> str:
    """A row of the table, in Markdown."""
    rates = [f"{100 * cell[f'success_{name}']['value']:.1f} %" for name in ("before", "ungated")]
    values = [
        f"{number['value']:.2f} [{number['low']:.2f}, {number['high']:.2f}]"
        for name in ("before", "after")
        for number in (cell[f"discounted_{name}"], cell[f"value_{name}"])
    ]
    answer = cell["answer"].partition(":")[0]
    return f"| {' | '.join([str(seed), arm, *rates, *values, answer])} |"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--redo", action="store_true", help="not what is kept, but the runs")
    parser.add_argument("--out", type=Path, default=Path("runs/offline_gate"))
    parser.add_argument("--results", type=Path, default=KEPT, help="folder of what is kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
