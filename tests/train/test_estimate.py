"""The stage that says what a policy would come to from a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import STAGES, Runner, write_experiment

from robo_rl.ope.verdict import bootstrapped
from robo_rl.train.judge import JudgeConfig
from robo_rl.train.pipeline import run_experiment

OPE = {"fqe": {"steps": 20}, "checkpoint_every": 10}


def report(folder: Path, **ope: Any) -> dict[str, Any]:
    """Of the stage, behind few demonstrations of which some fail."""
    collect = {**STAGES["collect"], "noise": 0.7}
    stages = {"collect": collect, "bc": STAGES["bc"], "ope": {**OPE, **ope}}
    waive = dict.fromkeys(("collect", "bc"), "too short to pass")
    folder.mkdir(exist_ok=True)
    config = write_experiment(folder, stages=stages, waive=waive)
    run_experiment(str(config), [], folder / "runs")
    return json.loads((folder / "runs" / "tiny" / "02-ope" / "report.json").read_text())


def test_it_says_the_value_with_the_interval_of_its_members_and_the_truth_beside_it(tmp_path: Path):
    found = report(tmp_path)
    members = json.loads((tmp_path / "runs" / "tiny" / "02-ope" / "members.json").read_text())
    value = found["numbers"]["value"]
    low, high = bootstrapped(torch.tensor(members["fqe"]))
    assert (value["low"], value["high"]) == pytest.approx((low, high))
    assert value["low"] < value["value"] < value["high"]
    assert found["numbers"]["return"]["unit"] == value["unit"]
    assert found["gate"] is None


def test_without_evaluation_the_env_is_not_asked(tmp_path: Path):
    found = report(tmp_path, evaluate=False)
    assert set(found["numbers"]) == {"value", "strangeness"}


def test_the_same_policy_on_the_same_data_is_worth_the_same_to_the_bit(tmp_path: Path):
    first, again = report(tmp_path / "a", evaluate=False), report(tmp_path / "b", evaluate=False)
    assert first["numbers"] == again["numbers"]


@pytest.mark.parametrize("missing", ["collect", "bc"])
def test_it_needs_data_and_a_policy(runner: Runner, tmp_path: Path, missing: str):
    stages = {"collect": STAGES["collect"], "bc": STAGES["bc"], "ope": OPE}
    del stages[missing]
    config = write_experiment(tmp_path, stages=stages)
    ended = runner.run("run", config, "--out", tmp_path / "runs")
    assert ended.status == 2
    assert "Traceback" not in ended.output


def test_a_world_that_nobody_asks_is_not_to_be_set():
    with pytest.raises(ValueError, match="'rollouts' among the estimators"):
        JudgeConfig.model_validate({"dynamics": {"steps": 5}})
    JudgeConfig.model_validate({"dynamics": {"steps": 5}, "estimators": ["rollouts"]})
