"""How much a policy of four skills forgets while it learns one of them further, by three methods.

All methods start from one clone of all skills (``coloured_table_states``) and learn one skill:
``sft`` clones demonstrations of that skill alone, ``rl`` is PPO, and ``opd`` is on-policy
distillation from the policy of ``rl``. The benchmark reports the success in that skill, the mean
success in the others, the env steps, and the KL from the clone to the result at states of the
skill, which Shenfeld et al. 2025 (arXiv 2509.04259) find to predict forgetting.

    python benchmarks/forgetting.py [--json FILE] [--seeds 1 2 3] [--skill lift]

Runs are saved in ``--out`` and resumed; results are saved under ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _chain_distance import forward_kl
from _chained_runs import Cell, ChainedRun, FinishedRun, cells, percent
from _kept import run_parser, table_head

from robo_rl.core.atomic_files import make_directory
from robo_rl_tasks.coloured_table.goals import SKILLS

SFT_STEPS = (250, 1000, 4000)
"""Gradient steps of cloning further; more steps gain more and forget more."""
COLUMNS = ("seed", "method", "this skill", "other skills", "KL, nats", "env steps")
CLONE, TEACHER = "clone", "rl"


class Method(NamedTuple):
    """A way to learn one skill further.

    Args:
        stages: Stage → settings.
        last: The stage that makes the policy.
        before: Methods whose policies it begins with.
    """

    stages: dict[str, Any]
    last: str
    before: tuple[str, ...] = (CLONE,)


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    print(table_head(COLUMNS))
    found: dict[str, Any] = {}
    for seed in args.seeds:
        chosen = runs(args.out, seed, args.skill)
        clone = args.out / chosen[CLONE].content["name"] / "01-bc" / "policy"
        files = partial(result_file, args.results, args.skill, seed)
        for name, cell in cells(chosen, files, partial(_measure, clone, seed), args):
            found.setdefault(name, {})[str(seed)] = cell
            print(line(seed, name, cell), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def result_file(folder: Path, skill: str, seed: int, name: str) -> Path:
    """Return the file of a cell."""
    return folder / f"{skill}_{name}_{seed}.json"


def runs(out: Path, seed: int, skill: str) -> dict[str, ChainedRun]:
    """Return name → run, the clone first."""
    ends = {CLONE: "01-bc", TEACHER: "01-online"}
    folders = {name: out / _run_name(skill, name, seed) / end for name, end in ends.items()}
    return {
        name: ChainedRun(_content(name, method, seed, skill), method.last, method.before)
        for name, method in methods(folders[CLONE], folders[TEACHER]).items()
    }


def methods(clone: Path, teacher: Path) -> dict[str, Method]:
    """Return name → method, the clone itself first."""
    loaded = {"collect": False, "bc": False, "policy": {"path": str(clone)}}
    start = {"pretrained": str(clone), "pretrained_statistics": True, "optim": {"lr": 1e-4}}
    opd = {"teacher": str(teacher), "rounds": 6, "num_envs": 64, "decisions": 18, "batch": 256}
    without = {"online": False}
    return {
        CLONE: Method(without, "bc", ()),
        **{
            f"sft_{steps}": Method({**without, "bc": {**start, "steps": steps}}, "bc")
            for steps in SFT_STEPS
        },
        TEACHER: Method({**loaded, "online": {"updates": 60}}, "online"),
        "opd": Method({**loaded, **without, "opd": {**opd, "steps": 500}}, "opd", (CLONE, TEACHER)),
    }


def _run_name(skill: str, name: str, seed: int) -> str:
    return f"forgetting_{skill}_{name}_{seed}"


def _content(name: str, method: Method, seed: int, skill: str) -> dict[str, Any]:
    """Return the run of a method as the content of a config."""
    others = [each for each in SKILLS if each != skill]
    gates = {"policy" if "policy" in method.stages else "bc", method.last}
    of = {"this": {"task": {"skills": [skill]}}, "others": {"task": {"skills": others}}}
    return {
        "base": ["experiment/coloured_table_states"],
        "name": _run_name(skill, name, seed),
        "seed": seed,
        "task": {} if name == CLONE else {"skills": [skill]},
        "waive": dict.fromkeys(sorted(gates), "one of several methods"),
        "stages": {**method.stages, "distill": False, "export": False, "variants": {"of": of}},
    }


def _measure(clone: Path, seed: int, name: str, run: FinishedRun) -> Cell:
    seen = run.reports["variants"]["numbers"]
    stepped = run.reports.get("online") or run.reports.get("opd")
    return {
        **{part: seen[f"{part}/success"] for part in ("this", "others")},
        "kl": forward_kl(run.policy, clone, run.file, seed=seed),
        "env_steps": stepped["numbers"]["env_steps"] if stepped else 0,
    }


def line(seed: int, name: str, cell: Cell) -> str:
    """Return a row of the table, in Markdown."""
    rates = " | ".join(percent(cell[part]) for part in ("this", "others"))
    return f"| {seed} | {name} | {rates} | {cell['kl']:.3g} | {cell['env_steps']:,} |"


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = run_parser(__doc__, "forgetting", seeds=(1, 2, 3))
    parser.add_argument("--skill", choices=SKILLS, default="lift", help="the skill to learn")
    return parser.parse_args(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
