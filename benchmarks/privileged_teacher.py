"""A policy of images and words, taught by a policy that reads the state of the simulator.

``clone`` is cloned from demonstrations with images (``coloured_table``). ``teacher`` is cloned
from the same demonstrations without images (``coloured_table_states``) and fine-tuned by PPO.
``student`` is the clone after on-policy distillation (stage ``opd``): it acts from images, and the
teacher gives the target of the denoising steps at each visited state. The benchmark reports
success, env steps and time. The suite ``vla`` has those of PPO on images.

    python benchmarks/privileged_teacher.py [--json FILE] [--seeds 1 2 3]

Runs are saved in ``--out`` and resumed; results are saved under ``benchmarks/results``.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from _chained_runs import Cell, ChainedRun, FinishedRun, cells, percent
from _kept import run_parser, table_head

from robo_rl.core.atomic_files import make_directory
from robo_rl_tasks.coloured_table.goals import SKILLS

CLONE, TEACHER, STUDENT = "clone", "teacher", "student"
COLUMNS = ("seed", "policy", "success", *SKILLS, "env steps", "min")
ROUNDS: dict[str, Any] = {
    "rounds": 10,
    "num_envs": 128,
    "decisions": 20,
    "steps": 500,
    "batch": 256,
    "freeze_encoder": True,
}


def main() -> None:
    args = run_parser(__doc__, "privileged_teacher", seeds=(1, 2, 3)).parse_args()
    make_directory(args.results)
    print(table_head(COLUMNS))
    found: dict[str, Any] = {}
    for seed in args.seeds:
        files = partial(result_file, args.results, seed)
        for name, cell in cells(runs(args.out, seed), files, measure, args):
            found.setdefault(name, {})[str(seed)] = cell
            print(line(seed, name, cell), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def result_file(folder: Path, seed: int, name: str) -> Path:
    """Return the file of a cell."""
    return folder / f"{name}_{seed}.json"


def runs(out: Path, seed: int) -> dict[str, ChainedRun]:
    """Return name → run, each after those that it begins with."""
    clone, teacher = (out / f"{name}_{seed}" for name in (CLONE, TEACHER))
    data = {"path": str(clone / "00-collect" / "data.zarr")}
    cloned = {"bc": {"precision": "bf16"}, "online": False}
    tuned = {"collect": False, "dataset": data, "bc": {}, "online": {}}
    loaded = {"collect": False, "bc": False, "policy": {"path": str(clone / "01-bc")}}
    taught = {"online": False, "opd": {"teacher": str(teacher / "02-online"), **ROUNDS}}
    images, states = "experiment/coloured_table", "experiment/coloured_table_states"
    return {
        CLONE: _run(CLONE, seed, images, cloned, "bc"),
        TEACHER: _run(TEACHER, seed, states, tuned, "online", (CLONE,)),
        STUDENT: _run(STUDENT, seed, images, {**loaded, **taught}, "opd", (CLONE, TEACHER)),
    }


def _run(
    name: str,
    seed: int,
    base: str,
    stages: dict[str, Any],
    last: str,
    before: tuple[str, ...] = (),
) -> ChainedRun:
    gates = {"policy" if "policy" in stages else "bc", last}
    content = {
        "base": [base],
        "name": f"{name}_{seed}",
        "seed": seed,
        "waive": dict.fromkeys(sorted(gates), "a part of a comparison"),
        "stages": {**stages, "distill": False, "export": False},
    }
    return ChainedRun(content, last, before)


def measure(name: str, run: FinishedRun) -> Cell:
    """Return success, by skill too, env steps, and the time of the stages that learn."""
    last = run.reports["opd" if name == STUDENT else "online" if name == TEACHER else "bc"]
    numbers = last["numbers"]
    learning = [run.reports[stage] for stage in ("bc", "online", "opd") if stage in run.reports]
    return {
        "success": numbers["success"],
        **{skill: numbers[f"success/{skill}"] for skill in SKILLS},
        "env_steps": numbers.get("env_steps", 0),
        "seconds": sum(report["seconds"] for report in learning),
    }


def line(seed: int, name: str, cell: Cell) -> str:
    """Return a row of the table, in Markdown."""
    skills = " | ".join(f"{100 * cell[skill]['value']:.1f} %" for skill in SKILLS)
    ends = f"{cell['env_steps']:,} | {cell['seconds'] / 60:.0f}"
    return f"| {seed} | {name} | {percent(cell['success'])} | {skills} | {ends} |"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
