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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _chain_distance import forward_kl
from _kept import load_result, resolve_experiment, run_parser, save_result, table_head

from robo_rl.config.compose import compose
from robo_rl.core.atomic_files import make_directory
from robo_rl.train.pipeline.run import run_experiment
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
    """

    stages: dict[str, Any]
    last: str


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    print(table_head(COLUMNS))
    found: dict[str, Any] = {}
    for seed in args.seeds:
        for name, cell in _cells(seed, args):
            found.setdefault(name, {})[str(seed)] = cell
            print(line(seed, name, cell), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def _cells(seed: int, args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the clone, then each method; kept results or those of runs."""
    places = folders(args.out, seed, args.skill)
    chosen = methods(*places.values())
    kept = {name: _kept(name, chosen, seed, args) for name in chosen}
    missing = {name for name, cell in kept.items() if cell is None}
    needed = {each for name in missing for each in before(name) if not places[each].is_dir()}
    for name, method in chosen.items():
        cell = kept[name]
        if cell is None or name in needed:
            content = experiment(name, method, seed, args.skill)
            cell = _run(content, method.last, places[CLONE], args)
            save_result(_path(name, seed, args), settings(name, chosen, seed, args.skill), cell)
        yield name, cell


def _kept(
    name: str, chosen: dict[str, Method], seed: int, args: argparse.Namespace
) -> dict[str, Any] | None:
    asked = settings(name, chosen, seed, args.skill)
    return None if args.redo else load_result(_path(name, seed, args), asked)


def _path(name: str, seed: int, args: argparse.Namespace) -> Path:
    return args.results / f"{args.skill}_{name}_{seed}.json"


def folders(out: Path, seed: int, skill: str) -> dict[str, Path]:
    """Return the folders of the stages that others begin with, by method."""
    ends = {CLONE: "01-bc", TEACHER: "01-online"}
    return {name: out / f"forgetting_{skill}_{name}_{seed}" / end for name, end in ends.items()}


def before(name: str) -> tuple[str, ...]:
    """Return the methods whose policies a method begins with."""
    return () if name == CLONE else (CLONE, TEACHER) if name == "opd" else (CLONE,)


def methods(clone: Path, teacher: Path) -> dict[str, Method]:
    """Return name → method, the clone itself first."""
    loaded = {"collect": False, "bc": False, "policy": {"path": str(clone)}}
    start = {"pretrained": str(clone), "pretrained_statistics": True, "optim": {"lr": 1e-4}}
    opd = {"teacher": str(teacher), "rounds": 6, "num_envs": 64, "decisions": 18, "batch": 256}
    without = {"online": False}
    return {
        CLONE: Method(without, "bc"),
        **{
            f"sft_{steps}": Method({**without, "bc": {**start, "steps": steps}}, "bc")
            for steps in SFT_STEPS
        },
        TEACHER: Method({**loaded, "online": {"updates": 60}}, "online"),
        "opd": Method({**loaded, **without, "opd": {**opd, "steps": 500}}, "opd"),
    }


def experiment(name: str, method: Method, seed: int, skill: str) -> dict[str, Any]:
    """Return the run of a method as the content of a config."""
    others = [each for each in SKILLS if each != skill]
    gates = {"policy" if "policy" in method.stages else "bc", method.last}
    of = {"this": {"task": {"skills": [skill]}}, "others": {"task": {"skills": others}}}
    return {
        "base": ["experiment/coloured_table_states"],
        "name": f"forgetting_{skill}_{name}_{seed}",
        "seed": seed,
        "task": {} if name == CLONE else {"skills": [skill]},
        "waive": dict.fromkeys(sorted(gates), "one of several methods"),
        "stages": {**method.stages, "distill": False, "export": False, "variants": {"of": of}},
    }


def settings(name: str, chosen: dict[str, Method], seed: int, skill: str) -> dict[str, Any]:
    """Return the settings of a run, and of those that it begins with."""
    return {each: _settings(each, chosen[each], seed, skill) for each in (*before(name), name)}


def _settings(name: str, method: Method, seed: int, skill: str) -> dict[str, Any]:
    """Return the settings of a run without paths, which differ between machines."""
    stages = dict(method.stages)
    first = dict(stages.get("bc") or {})
    begins = first.pop("pretrained", None) is not None and first.pop("pretrained_statistics")
    if begins:
        stages["bc"] = first
    found = resolve_experiment(experiment(name, Method(stages, method.last), seed, skill))
    found["stages"].get("bc", {}).pop("pretrained", None)
    found["stages"].get("opd", {}).pop("teacher", None)
    if begins:
        found["stages"]["bc"]["pretrained_statistics"] = True
    return found


def _run(
    content: dict[str, Any], last: str, clone: Path, args: argparse.Namespace
) -> dict[str, Any]:
    file = args.out / f"{content['name']}.yaml"
    make_directory(args.out)
    file.write_text(json.dumps(content))
    summary = run_experiment(compose(str(file), []), [], args.out)
    reports = {stage["stage"]: stage for stage in summary["stages"]}
    seen, made = reports["variants"]["numbers"], Path(summary["directory"])
    policy = next(made.glob(f"*-{last}")) / "policy"
    kl = forward_kl(policy, clone / "policy", file, seed=content["seed"])
    steps = 0 if last == "bc" else reports[last]["numbers"]["env_steps"]
    cell = {name: seen[f"{name}/success"] for name in ("this", "others")}
    return {**cell, "kl": kl, "env_steps": steps}


def line(seed: int, name: str, cell: dict[str, Any]) -> str:
    """Return a row of the table, in Markdown."""
    rates = (cell["this"], cell["others"])
    percent = [[100 * rate[part] for part in ("value", "low", "high")] for rate in rates]
    shown = [f"{value:.1f} % [{low:.1f}, {high:.1f}]" for value, low, high in percent]
    return f"| {seed} | {name} | {' | '.join(shown)} | {cell['kl']:.3g} | {cell['env_steps']:,} |"


def _arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = run_parser(__doc__, "forgetting", seeds=(1, 2, 3))
    parser.add_argument("--skill", choices=SKILLS, default="lift", help="the skill to learn")
    return parser.parse_args(words)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
