"""How often off-policy evaluation is right: its values beside what policies really come to.

On each task logs are recorded by a demonstrator who fails often. Ten policies are made of them, as
the gate of offline learning meets them: cloned for shorter and longer, from all of them or from
their successes, and improved by every improver. Other logs of the same demonstrator judge, by the
stage ``ope``; and 400 episodes tell the truth. ``strangers`` are ten policies cloned from other
demonstrations, better and worse ones, about which the logs may know little.

``strange``: policies whose chunks are too far from any that were tried for their values to count.
``covered``, of the others: the 95 % interval of the value has the truth in it, which is known to
its own error (|value − truth| within both half widths, in squares); ``of the strange``, of those.
``rank``: Spearman's correlation of values and truths, of all. Of all ordered pairs of one group's
policies, judged on the same resamples: how often it cannot be told whether the one is better than
the other, and how often the answer is wrong, that is, contradicted by truths whose difference's own
95 % interval is on the other side of 0.

    python benchmarks/gate_calibration.py [--json FILE] [--tasks lift_cube …] [--groups gate …]
        [--estimator fqe]

Runs are kept in ``--out``, and gone on with; what came of each under ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import rankdata

from robo_rl.durable import make_directory, write_file
from robo_rl.ope.verdict import Answer, judge
from robo_rl.train.judge import JudgeConfig, Judgement
from robo_rl.train.pipeline import run_experiment

COLUMNS = (
    *("task", "policies", "strange", "covered", "of the strange"),
    *("rank", "cannot tell", "wrong"),
)
KEPT = Path(__file__).parent / "results" / "gate_calibration"
EVAL = {"episodes": 400, "num_envs": 100}
WAIVED = "a policy that may be bad"


class Setting(NamedTuple):
    """A task, and how well its demonstrator does.

    Args:
        experiment: What its experiments have in common.
        logs: Noise of the demonstrator in the logs.
        noises: In the strangers' demonstrations.
    """

    experiment: dict[str, Any]
    logs: float
    noises: tuple[float, ...]


class Plan(NamedTuple):
    """How a policy is made.

    Args:
        name: Of its own.
        stages: Those that make it.
        seed: Of the experiment.
    """

    name: str
    stages: dict[str, Any]
    seed: int


def _ours(task: str) -> dict[str, Any]:
    rest = {"task": {"reward": "sparse"}, "policy": {"finetune_steps": 0}}
    return {"base": [f"task/{task}", "policy/flow"], **rest}


def _easier_push() -> dict[str, Any]:
    """As in the suite ``method_matrix``: clones of a few hundred logs would not succeed else."""
    target = {"target_low": [0.48, -0.04, -1.0], "target_high": [0.54, 0.04, 1.0]}
    task = {"reward": "sparse", "success_overlap": 0.8, "turn_high": 1.2, **target}
    return {**_ours("push_t"), "task": task, "policy": {"exec_horizon": 4, "finetune_steps": 0}}


def _metaworld(task: str) -> dict[str, Any]:
    policy = {"horizon": 4, "exec_horizon": 4, "finetune_steps": 0}
    env = {"name": "metaworld", "task": task, "reward": "success", "noise_memory": 0.9}
    return {"base": ["policy/flow"], "env": env, "policy": policy}


SETTINGS = {
    "lift_cube": Setting(_ours("lift_cube"), 0.8, (0.2, 0.4, 0.6, 0.8, 1.0)),
    "push_t": Setting(_easier_push(), 0.7, (0.1, 0.3, 0.5, 0.7, 0.9)),
    "push-v3": Setting(_metaworld("push-v3"), 0.25, (0.1, 0.15, 0.2, 0.25, 0.3)),
    "drawer-open-v3": Setting(_metaworld("drawer-open-v3"), 0.5, (0.2, 0.3, 0.4, 0.5, 0.6)),
}
GROUPS = ("gate", "strangers")
STRANGE = JudgeConfig().strange
ESTIMATORS = ("fqe", "rollouts")
IMPROVERS: dict[str, dict[str, Any]] = {
    "awr": {"name": "awr"},
    "null": {"name": "awr", "temperature": 1e6},
    "parl": {"name": "parl"},
    "ppo": {"name": "ppo"},
}
WHOLE = 4000
"""Gradient steps of cloning, of a policy that is improved."""


class Found(NamedTuple):
    """Of one policy and one estimator.

    Args:
        members: The estimate's values, one a resample.
        strangeness: Of the policy's chunks.
        value: Their mean and interval.
        truth: Mean return, and its interval.
    """

    members: torch.Tensor
    strangeness: float
    value: dict[str, float]
    truth: dict[str, float]

    @property
    def strange(self) -> bool:
        """Whether the gate lets no such policy through."""
        return self.strangeness > STRANGE

    @property
    def covered(self) -> bool:
        """Whether value and truth are as near as both are sure."""
        gap = abs(self.value["value"] - self.truth["value"])
        return gap <= float(np.hypot(_half(self.value), _half(self.truth)))


def main() -> None:
    args = _arguments()
    make_directory(args.results)
    found: dict[str, Any] = {}
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for task, group in product(args.tasks, args.groups):
        cells = [_cell(task, plan, args) for plan in plans(task, group, args.out)]
        found[f"{task} {group}"] = row = summary([_read(cell, args.estimator) for cell in cells])
        print(line(task, group, row), flush=True)
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


def summary(policies: list[Found]) -> dict[str, Any]:
    """Of one group of a task."""
    values = [each.value["value"] for each in policies]
    truths = [each.truth["value"] for each in policies]
    strange = [each for each in policies if each.strange]
    known = [each for each in policies if not each.strange]
    pairs = list(permutations(policies, 2))
    answers = [_answer(*pair) for pair in pairs]
    wrong = [_contradicted(*pair, answer) for pair, answer in zip(pairs, answers, strict=True)]
    return {
        "policies": len(policies),
        "strange": len(strange),
        "covered": sum(each.covered for each in known),
        "covered_strange": sum(each.covered for each in strange),
        "rank": float(np.corrcoef(rankdata(values), rankdata(truths))[0, 1]),
        "pairs": len(pairs),
        "cannot_tell": answers.count(Answer.CANNOT_TELL),
        "wrong": sum(wrong),
        "values": values,
        "truths": truths,
        "strangenesses": [each.strangeness for each in policies],
    }


def line(task: str, group: str, found: dict[str, Any]) -> str:
    """A row of the table, in Markdown."""
    known = found["policies"] - found["strange"]
    shares = [
        f"{found['strange']} of {found['policies']}",
        f"{found['covered']} of {known}",
        f"{found['covered_strange']} of {found['strange']}",
        f"{found['rank']:.2f}",
        *(f"{found[name]} of {found['pairs']}" for name in ("cannot_tell", "wrong")),
    ]
    return f"| {' | '.join([task, group, *shares])} |"


def plans(task: str, group: str, out: Path) -> list[Plan]:
    """Ten policies."""
    noises, lengths = SETTINGS[task].noises, (500, 3000)
    if group == "strangers":
        return [_stranger(noise, steps) for noise, steps in product(noises, lengths)]
    learn = {"dataset": {"path": str(_logs(task, 0, out))}}
    clones = [
        Plan(f"{'good' if good else 'all'}_{steps}", {**learn, "bc": _cloning(steps, good)}, 1)
        for good, steps in product((False, True), (500, 1500, WHOLE))
    ]
    unjudged = {"fqe": {"steps": 1}}
    return clones + [
        Plan(
            name,
            {
                **learn,
                "bc": _cloning(WHOLE, good=False),
                "offline": {"judge_share": 0.0, "improver": improver, **unjudged},
            },
            1,
        )
        for name, improver in IMPROVERS.items()
    ]


def _stranger(noise: float, steps: int) -> Plan:
    collect = {"episodes": 60, "num_envs": 60, "noise": noise}
    bc = _cloning(steps, good=False)
    return Plan(f"{noise:g}_{steps}", {"collect": collect, "bc": bc}, 1)


def _cloning(steps: int, good: bool) -> dict[str, Any]:
    return {"steps": steps, "only_success": good}


def _answer(new: Found, old: Found) -> Answer:
    """What the gate says of the one in the other's place."""
    return Judgement({"": judge(new.members, old.members)}, new.strangeness, STRANGE).answer


def _contradicted(new: Found, old: Found, answer: Answer) -> bool:
    """Whether the truths are surely the other way round."""
    apart = new.truth["value"] - old.truth["value"]
    sure = abs(apart) > float(np.hypot(_half(new.truth), _half(old.truth)))
    return sure and answer is (Answer.WORSE if apart > 0.0 else Answer.BETTER)


def _cell(task: str, plan: Plan, args: argparse.Namespace) -> dict[str, Any]:
    """What is kept of a policy, or what comes of it now."""
    name = f"{task}_{plan.name}_{args.estimator}"
    path = args.results / f"{name}.json"
    if path.exists() and not args.redo:
        return json.loads(path.read_text())
    judges = {"name": "dataset", "path": str(_logs(task, 2, args.out))}
    stages = {**plan.stages, "judges": judges, "ope": {"estimators": [args.estimator]}}
    rest = {"seed": plan.seed, "stages": stages}
    reports = _run(task, name, rest, args.out)
    numbers = reports["ope"]["numbers"]
    members = json.loads((Path(reports["ope"]["directory"]) / "members.json").read_text())
    names = ("value", "strangeness", "return", "success")
    cell = {"members": members, **{name: numbers[name] for name in names}}
    write_file(path, json.dumps(cell, indent=2).encode() + b"\n")
    return cell


def _logs(task: str, seed: int, out: Path) -> Path:
    """Episodes of the demonstrator; those of seed 0 are learnt from, those of seed 2 judge."""
    collect = {"episodes": 200, "num_envs": 100, "noise": SETTINGS[task].logs}
    rest = {"seed": seed, "stages": {"collect": collect}}
    reports = _run(task, f"{task}_logs_{seed}", rest, out)
    return Path(reports["collect"]["directory"]).absolute() / "data.zarr"


def _run(task: str, name: str, rest: dict[str, Any], out: Path) -> dict[str, dict[str, Any]]:
    """Stage → its report, and where it is."""
    folder = out / name
    make_directory(folder)
    waive = {stage: WAIVED for stage in rest["stages"] if stage != "ope"}
    content = {**SETTINGS[task].experiment, "name": name, "eval": EVAL, "waive": waive, **rest}
    write_file(file := folder / "experiment.yaml", json.dumps(content).encode())
    run_experiment(str(file), [], folder)
    found = sorted((folder / name).glob("[0-9][0-9]-*"))
    reports = [{**json.loads((at / "report.json").read_text()), "directory": at} for at in found]
    return {report["stage"]: report for report in reports}


def _read(cell: dict[str, Any], estimator: str) -> Found:
    members = torch.tensor(cell["members"][estimator])
    return Found(members, cell["strangeness"], cell["value"], cell["return"])


def _half(number: dict[str, float]) -> float:
    return (number["high"] - number["low"]) / 2.0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--tasks", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--estimator", choices=ESTIMATORS, default=ESTIMATORS[0])
    parser.add_argument("--redo", action="store_true", help="not what is kept, but the runs")
    parser.add_argument("--out", type=Path, default=Path("runs/gate_calibration"))
    parser.add_argument("--results", type=Path, default=KEPT, help="folder of what is kept")
    return parser.parse_args()


if __name__ == "__main__":
    main()
