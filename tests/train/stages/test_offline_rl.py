"""The stage that improves a policy on its dataset, and the gate in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import STAGES, Runner, write_experiment
from torch import Tensor

from robo_rl.core.errors import ConfigError
from robo_rl.ope.fqe import Fqe
from robo_rl.ope.policy_comparison import OpeAnswer, PolicyComparison
from robo_rl.stats.intervals import Interval
from robo_rl.train.datasets.split import split
from robo_rl.train.ope import ope_evaluator as train_judge
from robo_rl.train.pipeline.run import run_experiment

OFFLINE = {"critic_steps": 30, "steps": 30, "fqe": {"steps": 20}, "checkpoint_every": 10}


def written(folder: Path, **offline: Any) -> Path:
    """An experiment with the stage, behind few demonstrations of which some fail."""
    collect = {**STAGES["collect"], "noise": 0.7}
    stages = {"collect": collect, "bc": STAGES["bc"], "offline": {**OFFLINE, **offline}}
    waive = dict.fromkeys(("collect", "bc"), "too short to pass")
    folder.mkdir(exist_ok=True)
    return write_experiment(folder, stages=stages, waive=waive)


def run(runner: Runner, folder: Path, **offline: Any) -> dict[str, Any]:
    """The report of the stage."""
    ended = runner.run("run", written(folder, **offline), "--out", folder / "runs")
    assert ended.status == 0, ended.output
    return report(folder)


def run_here(folder: Path) -> dict[str, Any]:
    """The report of the stage, run in this very process."""
    run_experiment(str(written(folder)), [], folder / "runs")
    return report(folder)


def report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "runs" / "tiny" / "02-offline" / "report.json").read_text())


def tensors(folder: Path, stage: str) -> bytes:
    return (folder / "runs" / "tiny" / stage / "policy" / "tensors.safetensors").read_bytes()


@pytest.mark.slow
def test_a_margin_that_nothing_reaches_hands_on_the_policy_before(runner: Runner, tmp_path: Path):
    found = run(runner, tmp_path, margin=1e6)
    assert found["status"] == "passed"
    assert found["numbers"]["accepted"] == 0.0
    assert found["gate"]["detail"].endswith("the policy before goes on")
    assert tensors(tmp_path, "02-offline") == tensors(tmp_path, "01-bc")
    before, after = (found["numbers"][f"success{name}"]["value"] for name in ("_before", ""))
    assert before == after
    assert found["numbers"]["value_before"]["low"] <= found["numbers"]["value_before"]["value"]
    words = ("run", written(tmp_path, margin=1e6), "eval.episodes=12", "--out", tmp_path / "runs")
    ended = runner.run(*words)
    assert ended.status == 0, ended.output
    again = report(tmp_path)  # more episodes of all three, and the gate asks for none
    for name in ("success", "success_before", "success_ungated"):
        assert (found["numbers"][name]["n"], again["numbers"][name]["n"]) == (8, 12)
    assert list(again["numbers"]) == list(found["numbers"])
    assert (again["gate"], again["earlier"]) == (found["gate"], [])


def test_data_in_which_no_action_is_better_are_refused_before_anything_is_learnt(
    runner: Runner, tmp_path: Path
):
    collect = {**STAGES["collect"], "episodes": 2, "num_envs": 2}
    task = {"name": "reach", "robot": "panda", "episode_s": 0.1, "success_m": 0.001}
    stages = {"collect": collect, "bc": {**STAGES["bc"], "only_success": False}, "offline": OFFLINE}
    config = write_experiment(
        tmp_path, stages=stages, task={**task, "reward": "sparse"}, waive=dict.fromkeys(stages, "x")
    )
    ended = runner.run("run", config, "--out", tmp_path / "runs")
    assert ended.status == 2
    assert "holds the same reward in every row" in ended.output
    assert "Traceback" not in ended.output
    assert not (tmp_path / "runs" / "tiny" / "02-offline" / "critics").exists()


@pytest.mark.slow
def test_the_gate_asks_every_estimator_and_says_what_each_of_them_says(
    runner: Runner, tmp_path: Path
):
    dr = {"name": "dr", "steps": 20, "hidden": [8], "eval_every": 10}
    world = {"steps": 20, "eval_every": 10, "hidden": [8]}
    found = run(runner, tmp_path, estimators=["fqe", dr], dynamics=world, margin=1e6)
    assert "fqe cannot tell" in found["gate"]["detail"]
    assert "dr cannot tell" in found["gate"]["detail"]
    for when in ("before", "after"):
        assert found["numbers"][f"dr_value_{when}"]["unit"] == "reward"
        assert 0.0 < found["numbers"][f"dr_value_{when}_effective"] <= 1.0
    folder = tmp_path / "runs" / "tiny" / "02-offline"
    made = ("judge_before", "judge_after", "dr_before", "dr_after", "dynamics")
    assert all((folder / name / "metrics.jsonl").exists() for name in made)


@pytest.mark.parametrize("missing", ["collect", "bc"])
def test_it_needs_data_and_a_policy(runner: Runner, tmp_path: Path, missing: str):
    stages = {"collect": STAGES["collect"], "bc": STAGES["bc"], "offline": OFFLINE}
    del stages[missing]
    config = write_experiment(tmp_path, stages=stages, waive={})
    ended = runner.run("run", config, "--out", tmp_path / "runs")
    assert ended.status == 2
    assert "no earlier stage makes the" in ended.output


@pytest.mark.parametrize(
    "answer",
    [
        OpeAnswer.BETTER,
        *(pytest.param(a, marks=pytest.mark.slow) for a in OpeAnswer if a is not OpeAnswer.BETTER),
    ],
)
def test_the_new_policy_goes_on_if_it_is_better_and_not_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: OpeAnswer
):
    def said(new: Tensor, old: Tensor, margin: float, error: float) -> PolicyComparison:
        assert error > 0.0
        difference = float((new - old).mean())
        return PolicyComparison(difference, Interval(difference, difference), margin, answer)

    monkeypatch.setattr(train_judge, "compare_estimates", said)
    found = run_here(tmp_path)
    accepted = answer is OpeAnswer.BETTER
    assert found["numbers"]["accepted"] == float(accepted)
    assert found["gate"]["detail"].startswith(answer.value)
    same = tensors(tmp_path, "02-offline") == tensors(tmp_path, "01-bc")
    assert same is not accepted
    numbers = found["numbers"]
    kept = numbers["success_ungated" if accepted else "success_before"]
    assert numbers["success"]["value"] == kept["value"]
    for truth, value in (("return_before", "value_before"), ("return_ungated", "value_after")):
        assert numbers[truth]["unit"] == numbers[value]["unit"]
    learnt, apart = split(STAGES["collect"]["episodes"], 0.5, seed=0)
    assert numbers["value_before"]["n"] == len(apart)  # the judge's own
    assert not learnt & apart


@pytest.mark.slow
def test_a_waiver_is_another_stage(tmp_path: Path):
    """What it decides cannot be decided afterwards."""
    config = written(tmp_path, margin=1e6)
    run_experiment(str(config), [], tmp_path / "runs")
    with pytest.raises(ConfigError, match="holds a stage of another configuration"):
        run_experiment(str(config), ["waive.offline=why"], tmp_path / "runs")


def test_an_algorithm_that_does_not_take_the_policy_is_refused_before_anything_runs(
    runner: Runner, tmp_path: Path
):
    config = written(tmp_path, algo={"name": "bppo"})
    ended = runner.run("run", config, "policy.finetune_steps=1", "--out", tmp_path / "runs")
    assert ended.status == 2
    assert "PPO trains all denoising steps" in ended.output
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_gate_that_is_waived_lets_the_new_policy_go_on_and_keeps_the_reason(tmp_path: Path):
    config = written(tmp_path, margin=1e6)
    why = ["waive.offline=the demonstrator says so"]
    run_experiment(str(config), why, tmp_path / "runs")
    found = report(tmp_path)
    assert (found["status"], found["gate"]["waiver"]) == ("waived", "the demonstrator says so")
    assert found["gate"]["detail"].endswith("the new policy goes on")
    assert found["numbers"]["accepted"] == 1.0
    assert tensors(tmp_path, "02-offline") != tensors(tmp_path, "01-bc")


@pytest.mark.slow
def test_a_run_that_is_cut_off_in_its_last_part_does_not_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = run_here(tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(train_judge, "compare_estimates", _cut_off)
        with pytest.raises(KeyboardInterrupt):
            run_here(tmp_path / "cut")
    monkeypatch.setattr(Fqe, "step", _cut_off)  # all of it has been done
    again = run_here(tmp_path / "cut")
    for name in ("value_before", "value_after", "critics_value_loss"):
        assert again["numbers"][name] == whole["numbers"][name]


def _cut_off(*args: Any, **fields: Any) -> Any:
    raise KeyboardInterrupt
