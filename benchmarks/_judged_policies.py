"""Policies with a measured return and an off-policy estimate, and their saved results.

For ``gate_calibration.py``.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _kept import load_result, resolve_experiment, save_result

from robo_rl.config.models import digest
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.ope.conformal import distance_outside
from robo_rl.ope.policy_comparison import bootstrap_interval, clip_interval, hull
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.intervals import Interval
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.ope.ope_evaluator import OpeConfig, OpeEvaluator
from robo_rl.train.pipeline.run import run_experiment

EVAL = {"episodes": 400, "num_envs": 100}
WAIVED = "a policy that may be bad"


class TaskSetting(NamedTuple):
    """A task: the common part of its experiments, and the noise of its demonstrations."""

    experiment: dict[str, Any]
    noise: float


class PolicyRecipe(NamedTuple):
    """A policy: cloned for so many steps, from all episodes or from the successful ones.

    ``offline`` is the stage that improves the clone, None for the clone itself.
    """

    name: str
    steps: int
    good: bool
    offline: dict[str, Any] | None = None


def _ours(task: str) -> dict[str, Any]:
    """Return the setting of a built-in task; on push_t, clones of so little data never succeed."""
    rest = {"task": {"reward": "sparse"}, "policy": {"finetune_steps": 0}}
    return {"base": [f"task/{task}", "policy/flow"], **rest}


def _metaworld(task: str) -> dict[str, Any]:
    policy = {"horizon": 4, "exec_horizon": 4, "finetune_steps": 0}
    env = {"name": "metaworld", "task": task, "reward": "success", "noise_correlation": 0.9}
    return {"base": ["policy/flow"], "env": env, "policy": policy}


SETTINGS = {
    "lift_cube": TaskSetting(_ours("lift_cube"), 0.8),
    "push-v3": TaskSetting(_metaworld("push-v3"), 0.25),
    "drawer-open-v3": TaskSetting(_metaworld("drawer-open-v3"), 0.5),
    "peg-insert-side-v3": TaskSetting(_metaworld("peg-insert-side-v3"), 0.2),
}
POSSIBLE = Interval(0.0, 1.0)
"""Range of returns: success is the only reward."""
MAX_OOD_DISTANCE = OpeConfig().max_ood_distance
ESTIMATORS = ("fqe", "rollouts", "dr")
IMPROVERS: dict[str, dict[str, Any]] = {
    "awr": {"name": "awr"},
    "null": {"name": "awr", "temperature": 1e6},
    "parl": {"name": "parl", "step_size": 0.01},
    "ppo": {"name": "bppo"},
}
WHOLE = 4000
"""Gradient steps of cloning for a policy that is then improved."""
_JUDGES: dict[tuple[Any, ...], OpeEvaluator] = {}


def _clone(steps: int, good: bool) -> PolicyRecipe:
    return PolicyRecipe(f"{'good' if good else 'all'}_{steps}", steps, good)


def _improved(name: str) -> PolicyRecipe:
    unjudged = {"holdout_fraction": 0.0, "fqe": {"steps": 1}}
    return PolicyRecipe(name, WHOLE, good=False, offline={"algo": IMPROVERS[name], **unjudged})


PLANS = [
    *(_clone(steps, good) for good, steps in product((False, True), (500, 1500, WHOLE))),
    *(_improved(name) for name in IMPROVERS),
]


class PolicyEstimate(NamedTuple):
    """The off-policy estimates of one policy.

    Args:
        members: Estimator → its values, one per resample.
        ood_distance: Distance of the policy's chunks from the data.
        true_return: Mean return, and its interval.
    """

    members: dict[str, torch.Tensor]
    ood_distance: float
    true_return: dict[str, float]

    @property
    def is_ood(self) -> bool:
        """Return whether the gate rejects the policy for its distance from the data."""
        return self.ood_distance > MAX_OOD_DISTANCE

    @property
    def value(self) -> float:
        """Return the mean over the estimators."""
        means = [each.mean() for each in self.members.values()]
        return float(torch.stack(means).clamp(*POSSIBLE).mean())

    @property
    def interval(self) -> Interval:
        """Return the hull of the estimators' intervals."""
        found = hull([bootstrap_interval(each) for each in self.members.values()])
        return clip_interval(found, POSSIBLE)

    @property
    def covered(self) -> bool:
        """Return whether the interval contains the true return."""
        return distance_outside(self.interval, self.true_return["value"]) <= 0.0

    def only(self, name: str) -> PolicyEstimate:
        """Return the estimate of one estimator."""
        return self._replace(members={name: self.members[name]})


def half(number: dict[str, float]) -> float:
    """Return half of the interval's width."""
    return (number["high"] - number["low"]) / 2.0


def policy_estimate(task: str, plan: PolicyRecipe, args: argparse.Namespace) -> PolicyEstimate:
    """Return the saved estimate of a policy, or compute it."""
    path, asked = args.results / f"{task}_{plan.name}.json", settings(task, plan)
    have = load_result(path, asked) or {"members": {}}
    done = () if args.redo else have["members"]
    if missing := [name for name in args.estimators if name not in done]:
        last = _made(task, plan, args.out)
        policy = load_policy(last["directory"] / last["artifacts"]["policy"])
        judging = _judge(task, plan.good, missing, policy, args)
        said = judging.estimate(plan.name, policy)
        have = {
            "members": have["members"] | {name: e.members.tolist() for name, e in said.items()},
            "ood_distance": judging.ood_distance(policy),
            "truth": last["numbers"]["return"],
        }
        save_result(path, asked, have)
    members = {name: torch.tensor(have["members"][name]) for name in args.estimators}
    return PolicyEstimate(members, have["ood_distance"], have["truth"])


def settings(task: str, plan: PolicyRecipe) -> dict[str, Any]:
    """Return the settings of all runs behind one policy and its estimate."""
    judging = OpeConfig.model_validate({"estimators": ESTIMATORS})
    parts = {
        "logs": _logging(task, 0),
        "judged_by": _logging(task, 2),
        "clone": _cloning(task, plan, ""),
    }
    if plan.offline is not None:
        parts["improved"] = _improving(task, plan, "", "")
    return {
        **{name: resolve_experiment(content) for name, content in parts.items()},
        "judge": judging.model_dump(
            mode="json", exclude={"max_ood_distance", "model_error"}
        ),  # not used
    }


def _made(task: str, plan: PolicyRecipe, out: Path) -> dict[str, Any]:
    """Return the report of the policy's last stage."""
    logs = str(_logs(task, 0, out))
    if plan.offline is None:
        content = _cloning(task, plan, logs)
    else:
        clone = _made(task, _clone(plan.steps, plan.good), out)
        content = _improving(task, plan, logs, str(clone["directory"].absolute()))
    return list(_run(f"{task}_{plan.name}", content, out).values())[-1]


def _cloning(task: str, plan: PolicyRecipe, logs: str) -> dict[str, Any]:
    stages = {"dataset": {"path": logs}, "bc": {"steps": plan.steps, "only_success": plan.good}}
    return _experiment(task, 1, stages)


def _improving(task: str, plan: PolicyRecipe, logs: str, clone: str) -> dict[str, Any]:
    stages = {"dataset": {"path": logs}, "policy": {"path": clone}, "offline": plan.offline}
    return _experiment(task, 1, stages)


def _logging(task: str, seed: int) -> dict[str, Any]:
    collect = {"episodes": 200, "num_envs": 100, "noise": SETTINGS[task].noise}
    return _experiment(task, seed, {"collect": collect})


def _experiment(task: str, seed: int, stages: dict[str, Any]) -> dict[str, Any]:
    rest = {"eval": EVAL, "waive": dict.fromkeys(stages, WAIVED), "seed": seed, "stages": stages}
    return {**SETTINGS[task].experiment, **rest}


def _judge(
    task: str, good: bool, estimators: list[str], like: DenoisingPolicy, args: argparse.Namespace
) -> OpeEvaluator:
    """Return the evaluator of all policies with one normaliser, cloned from one selection."""
    key, cfg = (task, good, *estimators), OpeConfig.model_validate({"estimators": estimators})
    if key not in _JUDGES:
        store = ZarrStore.open(_logs(task, 2, args.out))
        data = WindowDataset(store, like.obs_horizon, like.horizon)
        kind = "good" if good else "all"
        folder = args.out / f"{task}_judge_{kind}_{digest(cfg)}"
        make_directory(folder)
        _JUDGES.clear()  # one task at a time
        _JUDGES[key] = OpeEvaluator(cfg, data, like, folder=folder, seed=2)
    return _JUDGES[key]


def _logs(task: str, seed: int, out: Path) -> Path:
    """Return the demonstrator's episodes: seed 0 for training, seed 2 for evaluation."""
    reports = _run(f"{task}_logs_{seed}", _logging(task, seed), out)
    return Path(reports["collect"]["directory"]).absolute() / "data.zarr"


def _run(name: str, content: dict[str, Any], out: Path) -> dict[str, dict[str, Any]]:
    """Return stage → its report and its folder."""
    folder = out / name
    make_directory(folder)
    write_file(file := folder / "experiment.yaml", json.dumps({**content, "name": name}).encode())
    run_experiment(str(file), [], folder)
    found = sorted((folder / name).glob("[0-9][0-9]-*"))
    reports = [{**json.loads((at / "report.json").read_text()), "directory": at} for at in found]
    return {report["stage"]: report for report in reports}
