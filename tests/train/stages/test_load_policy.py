"""Stage ``policy``: what another run made is taken up as it is, or refused with the difference."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.core.errors import CheckpointError, DataError, Notice
from robo_rl.train.checkpoint.policies import load_policy, weights_digest
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Gate, Report
from robo_rl.train.pipeline.world_digest import world_of
from robo_rl.train.stages.init_policy import InitPolicy
from robo_rl.train.stages.load_policy import LoadPolicy


def experiment(**changes: Any) -> Experiment:
    return validate({**EXPERIMENT, "stages": {"scratch": {}}, "waive": {}, **changes}, Experiment)


def take(path: Path, into: Path, **changes: Any) -> Report:
    return LoadPolicy(LoadPolicy.Config(path=str(path))).run(
        Context(experiment(**changes), into, [])
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run") / "00-scratch"
    context = Context(experiment(), place, [])
    InitPolicy(InitPolicy.Config(num_envs=2, steps=4)).run(context).write(place)
    return place


@pytest.mark.parametrize("of_it", ["", "policy"])
def test_it_is_copied_and_evaluated(made: Path, tmp_path: Path, of_it: str):
    report = take(made / of_it, tmp_path)
    kept, origin = load_policy(tmp_path / report.artifacts["policy"]), load_policy(made / "policy")
    assert kept.cfg == origin.cfg
    assert all(
        torch.equal(a, b) for a, b in zip(kept.parameters(), origin.parameters(), strict=True)
    )
    assert report.numbers["success"]["n"] == EXPERIMENT["eval"]["episodes"]


def test_the_gate_of_the_stage_that_made_it_comes_along(made: Path, tmp_path: Path):
    failed = Gate(name="learnt", passed=False, detail="0 of 8")
    for gate in (None, failed, failed.model_copy(update={"waiver": "why not"})):
        shutil.copytree(made, tmp_path / "made", dirs_exist_ok=True)
        Report("bc", artifacts={"policy": "policy"}, gate=gate).write(tmp_path / "made")
        report = take(tmp_path / "made", tmp_path / "new")
        reason = "; waived there: why not" if gate and gate.waiver else ""
        assert report.gate == (gate and gate.model_copy(update={"detail": f"0 of 8{reason}"}))
        assert report.numbers["weights"] == weights_digest(load_policy(made / "policy"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"policy": {**EXPERIMENT["policy"], "horizon": 8}},
            r"another policy\.horizon; expected 8, found 4",
        ),
        (
            {"policy": {**EXPERIMENT["policy"], "horizon": 8, "num_steps": 7}},
            r"(?s)policy\.horizon.*policy\.num_steps.*set policy\.horizon=4 policy\.num_steps=",
        ),
        (
            {"policy": {**EXPERIMENT["policy"], "sampler": "flow_sde"}},
            r"another policy\.sampler\.name.*set policy\.sampler\.name=flow_noise",
        ),
        ({"task": {**EXPERIMENT["task"], "robot": "so101"}}, "other arrays than the env has"),
    ],
)
def test_another_kind_or_another_world_is_refused(
    made: Path, tmp_path: Path, changes: dict[str, Any], says: str
):
    with pytest.raises(DataError, match=says):
        take(made, tmp_path / "new", **changes)
    assert not (tmp_path / "new").exists()


def test_that_it_was_made_in_another_world_is_said(made: Path, tmp_path: Path):
    """Which is no reason to refuse it: it is evaluated anew."""
    shutil.copytree(made, tmp_path / "made")
    now = world_of(experiment())
    for world, said in ((now, None), ({}, None), ({**now, "robot": "abc"}, "robot: abc → ")):
        Report("bc", artifacts={"policy": "policy"}, world=world).write(tmp_path / "made")
        with pytest.warns(Notice, match="another world") if said else nullcontext():
            report = take(tmp_path / "made", tmp_path / "new")
        found = report.numbers.get("world_changes")
        assert found == (said and f"{said}{now['robot']}")


def test_what_is_no_policy_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match="nothing"):
        take(tmp_path / "nothing", tmp_path)
