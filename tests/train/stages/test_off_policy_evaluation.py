"""The stage that says what a policy would come to from a dataset."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import STAGES, Runner, write_experiment
from small_vla import small_vla_policy

from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.ope.fqe import Fqe
from robo_rl.ope.policy_comparison import bootstrap_interval
from robo_rl.train.ope.ope_evaluator import OpeConfig
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.world.dynamics_trainer import DynamicsTrainer

OPE: dict[str, Any] = {"fqe": {"steps": 20}, "checkpoint_every": 10}


def run(folder: Path, **stages: Any) -> None:
    """Few demonstrations of which some fail, a clone, and more stages."""
    collect = {**STAGES["collect"], "noise": 0.7}
    waive = dict.fromkeys(("collect", "bc"), "too short to pass")
    folder.mkdir(exist_ok=True)
    road = {"collect": collect, "bc": STAGES["bc"], **stages}
    config = write_experiment(folder, stages=road, waive=waive)
    run_experiment(str(config), [], folder / "runs")


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run up to the clone, from which each evaluation goes on."""
    run(folder := tmp_path_factory.mktemp("cloned"))
    return folder


def report(cloned: Path, folder: Path, **ope: Any) -> dict[str, Any]:
    """Of the stage, behind the clone."""
    shutil.copytree(cloned / "runs", folder / "runs")
    run(folder, ope={**OPE, **ope})
    return json.loads((folder / "runs" / "tiny" / "02-ope" / "report.json").read_text())


def test_it_says_the_value_with_the_interval_of_its_members_and_the_truth_beside_it(
    cloned: Path, tmp_path: Path
):
    fqe = {**OPE["fqe"], "critic": {"members": 8, "head": {"bounds": [-10.0, 10.0]}}}
    found = report(cloned, tmp_path, fqe=fqe, model_error=0.01)
    members = json.loads((tmp_path / "runs" / "tiny" / "02-ope" / "members.json").read_text())
    value = found["numbers"]["value"]
    low, high = bootstrap_interval(torch.tensor(members["fqe"]))
    assert (value["low"], value["high"]) == pytest.approx((low - 0.2, high + 0.2))
    assert value["low"] < value["value"] < value["high"]
    assert found["numbers"]["return"]["unit"] == value["unit"]
    assert found["gate"] is None


def test_no_value_is_beyond_what_is_possible(cloned: Path, tmp_path: Path):
    world = {"steps": 20, "eval_every": 10, "hidden": [8]}
    possible = {**OPE["fqe"], "critic": {"members": 8, "head": {"bounds": [900.0, 901.0]}}}
    found = report(cloned, tmp_path, estimators=["rollouts"], dynamics=world, fqe=possible)
    value = found["numbers"]["value"]
    assert (value["value"], value["low"], value["high"]) == (900.0, 900.0, 900.0)


def test_without_evaluation_the_env_is_not_asked_and_a_value_is_the_same_to_the_bit(
    cloned: Path, tmp_path: Path
):
    first, again = (report(cloned, tmp_path / name, evaluate=False) for name in ("a", "b"))
    assert set(first["numbers"]) == {"value", "ood_distance"}
    assert first["numbers"] == again["numbers"]


@pytest.mark.parametrize("missing", ["collect", "bc"])
def test_it_needs_data_and_a_policy(runner: Runner, tmp_path: Path, missing: str):
    stages = {"collect": STAGES["collect"], "bc": STAGES["bc"], "ope": OPE}
    del stages[missing]
    config = write_experiment(tmp_path, stages=stages, waive={})
    ended = runner.run("run", config, "--out", tmp_path / "runs")
    assert ended.status == 2
    assert "no earlier stage makes the" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.slow
def test_estimators_share_what_they_ask_and_none_changes_what_another_says(
    cloned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    dr = {"name": "dr", "steps": 20, "hidden": [8], "eval_every": 10}
    world = {"steps": 20, "eval_every": 10, "hidden": [8]}
    fits: list[str] = []
    for learner in (Fqe, DynamicsTrainer):
        begin = learner.__init__

        def noted(self: Any, *args: Any, _begin: Any = begin, **fields: Any) -> None:
            fits.append(type(self).__name__)
            _begin(self, *args, **fields)

        monkeypatch.setattr(learner, "__init__", noted)
    together = members(cloned, tmp_path / "all", estimators=[dr, "rollouts", "fqe"], dynamics=world)
    assert sorted(fits) == ["DynamicsTrainer", "Fqe"]
    assert members(cloned, tmp_path / "fqe") == {"fqe": together["fqe"]}
    alone = members(cloned, tmp_path / "rollouts", estimators=["rollouts"], dynamics=world)
    assert alone == {"rollouts": together["rollouts"]}
    alone = members(cloned, tmp_path / "dr", estimators=[dr], dynamics=world)
    assert alone == {"dr": together["dr"]}
    found = json.loads((tmp_path / "dr" / "runs" / "tiny" / "02-ope" / "report.json").read_text())
    assert 0.0 < found["numbers"]["dr_value_effective"] <= 1.0


def members(cloned: Path, folder: Path, **ope: Any) -> dict[str, list[float]]:
    """What each estimator says."""
    report(cloned, folder, evaluate=False, **ope)
    return json.loads((folder / "runs" / "tiny" / "02-ope" / "members.json").read_text())


def test_a_world_that_nobody_asks_is_not_to_be_set():
    with pytest.raises(ValueError, match="'rollouts' among the estimators"):
        OpeConfig.model_validate({"dynamics": {"steps": 5}})
    for name in ("rollouts", "dr"):
        OpeConfig.model_validate({"dynamics": {"steps": 5}, "estimators": [name]})


def test_an_estimator_is_named_once_and_known():
    with pytest.raises(ValueError, match="dr twice"):
        OpeConfig.model_validate({"estimators": ["dr", {"name": "dr", "steps": 5}]})
    with pytest.raises(ValueError, match="name at least one estimator"):
        OpeConfig.model_validate({"estimators": []})
    with pytest.raises(ConfigError, match="unknown estimator 'fqee'; did you mean 'fqe'") as error:
        validate({"estimators": ["fqee"]}, OpeConfig)
    assert "at least" not in str(error.value)  # there is one, and it is wrong
    with pytest.raises(ConfigError, match=r"estimators\.0\.stepps: unknown key"):
        validate({"estimators": [{"name": "dr", "stepps": 5}]}, OpeConfig)


def test_an_estimator_without_settings_is_kept_by_its_name_alone():
    """Kept results are told from others by their configuration."""
    kept = validate({"estimators": ["fqe", "rollouts"]}, OpeConfig).model_dump(mode="json")
    assert kept["estimators"] == ["fqe", "rollouts"]
    cfg = validate({"estimators": ["fqe", {"name": "dr", "steps": 5}]}, OpeConfig)
    kept = cfg.model_dump(mode="json")
    assert kept["estimators"][1]["steps"] == 5
    assert validate(kept, OpeConfig) == cfg


def test_estimates_that_cannot_depend_on_an_instruction_are_refused():
    policy = small_vla_policy("smolvla")
    with pytest.raises(SpecError, match=r"fqe\.critic\.sees.*vectors that tell the goal"):
        OpeConfig().check_policy(policy)
    validate({"fqe": {"critic": {"sees": ["state"]}}}, OpeConfig).check_policy(policy)
