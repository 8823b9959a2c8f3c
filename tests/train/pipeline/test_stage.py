"""Stages: what an experiment says of them, and what they report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT
from small_stores import make_episode, make_store

from robo_rl.config.models import validate
from robo_rl.core.errors import DataError, GateError
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Gate, Report


def experiment(**changes: Any) -> Experiment:
    return validate({**EXPERIMENT, **changes}, Experiment)


def failed(waiver: str | None = None) -> Gate:
    return Gate(name="learnt", passed=False, detail="0 of 8", waiver=waiver)


def test_a_report_is_read_back_as_it_was_written(tmp_path: Path):
    report = Report(
        "bc",
        numbers={"success": {"value": 0.5, "low": 0.2, "high": 0.8, "n": 8}, "loss": 0.1},
        artifacts={"policy": "policy"},
        gate=failed("why not"),
        files={"video": "rollout.mp4"},
        curves={"loss": {"x": "step", "y": "loss"}},
        seconds=12.5,
        digest="abc",
    )
    report.write(tmp_path)
    assert Report.read(tmp_path) == report
    Report("collect").write(tmp_path)
    assert Report.read(tmp_path) == Report("collect")


def test_a_stage_without_a_report_is_not_done(tmp_path: Path):
    assert Report.read(tmp_path) is None


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", "3", '"x"', "{}", '{"gate": 3}', "\x00\x01", '{"gate":{"name":1}}']
)
def test_a_damaged_report_is_a_data_error(tmp_path: Path, damage: str):
    (tmp_path / "report.json").write_text(damage)
    with pytest.raises(DataError, match=r"report\.json: not a stage report"):
        Report.read(tmp_path)


@pytest.mark.parametrize(
    ("gate", "status"),
    [
        (None, "passed"),
        (Gate(name="learnt", passed=True, detail=""), "passed"),
        (failed(), "failed"),
        (failed("why not"), "waived"),
    ],
)
def test_the_status_is_that_of_the_gate(gate: Gate | None, status: str, tmp_path: Path):
    report = Report("bc", gate=gate)
    assert report.status == status
    report.write(tmp_path)
    assert json.loads((tmp_path / "report.json").read_text())["status"] == status


def test_a_stage_takes_up_the_newest_artifact(tmp_path: Path):
    earlier = [
        (tmp_path / "01-bc", Report("bc", artifacts={"policy": "policy", "log": "log"})),
        (tmp_path / "02-online", Report("online", artifacts={"policy": "best"})),
    ]
    context = Context(experiment(), tmp_path / "03-distill", earlier)
    assert context.artifact("policy") == tmp_path / "02-online" / "best"
    assert context.artifact("log") == tmp_path / "01-bc" / "log"
    with pytest.raises(GateError, match="no earlier stage makes the dataset"):
        context.artifact("dataset")


def test_what_belongs_to_an_artifact_is_of_the_same_stage(tmp_path: Path):
    online = (
        tmp_path / "02-online",
        Report("online", artifacts={"policy": "best", "joint_student": "h"}),
    )
    recorded = (tmp_path / "03-record", Report("record", artifacts={"dataset": "data.zarr"}))
    improved = (tmp_path / "04-offline", Report("offline", artifacts={"policy": "policy"}))

    def found(*earlier: tuple[Path, Report]) -> Path | None:
        return Context(experiment(), tmp_path / "05-distill", [*earlier]).sibling_artifact(
            "policy", "joint_student"
        )

    assert found(online, recorded) == tmp_path / "02-online" / "h"
    assert found(online, recorded, improved) is None
    assert found(recorded) is None


def test_a_dataset_is_the_one_that_its_stage_handed_on(tmp_path: Path):
    store = make_store(tmp_path / "data.zarr")
    store.append(make_episode(0))
    report = Report("dataset", {"dataset": store.digest()}, {"dataset": str(store.path)})
    context = Context(experiment(), tmp_path, [(tmp_path, report)])
    assert context.dataset().digest() == store.digest()
    store.append(make_episode(1))
    with pytest.raises(DataError, match=r"data\.zarr: holds other episodes than .* put them back"):
        context.dataset()
