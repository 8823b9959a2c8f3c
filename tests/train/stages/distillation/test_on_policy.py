"""Stage ``opd``: a student that sees less is drawn to a teacher that sees all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.core.errors import CheckpointError, SpecError
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.stages.distillation.on_policy import DistillOnPolicy
from robo_rl.train.stages.init_policy import InitPolicy

OPD = {"rounds": 2, "num_envs": 4, "decisions": 3, "steps": 60, "batch": 32}
SEES = ["joint_pos", "joint_vel", "goal_pos"]


def experiment(teacher: str, seed: int, **policy: Any) -> Experiment:
    stages = {"scratch": {"num_envs": 2, "steps": 4}, "opd": {**OPD, "teacher": teacher}}
    policy = {**EXPERIMENT["policy"], **policy}
    changes = {"stages": stages, "waive": {}, "seed": seed, "policy": policy}
    return validate({**EXPERIMENT, **changes}, Experiment)


def make_policy(wanted: Experiment, folder: Path) -> tuple[Path, Report]:
    report = InitPolicy(wanted.stages["scratch"].cfg).run(Context(wanted, folder, []))
    report.write(folder)
    return folder, report


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("teacher") / "00-scratch"
    return make_policy(experiment("none", seed=0), folder)[0]


def distil(wanted: Experiment, folder: Path) -> Report:
    made = make_policy(wanted, folder / "00-scratch")
    return DistillOnPolicy(wanted.stages["opd"].cfg).run(Context(wanted, folder / "01-opd", [made]))


def test_a_student_that_sees_less_comes_nearer_and_counts_its_env_steps(teacher, tmp_path: Path):
    report = distil(experiment(str(teacher), seed=1, sees=SEES), tmp_path)
    lines = (tmp_path / "01-opd" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    assert report.numbers["loss"] == pytest.approx(losses[-1], rel=1.0)
    assert 0 < report.numbers["env_steps"] <= 2 * 4 * 3 * 4
    assert {"success", "teacher_success"} <= report.numbers.keys()
    assert report.gate is not None
    assert "teacher" in report.gate.name


def test_a_teacher_that_is_not_there_or_reads_another_world_is_refused(teacher, tmp_path: Path):
    with pytest.raises(CheckpointError, match="nowhere"):
        distil(experiment(str(tmp_path / "nowhere"), seed=1), tmp_path / "a")
    with pytest.raises(SpecError, match="another horizon"):
        distil(experiment(str(teacher), seed=1, horizon=8), tmp_path / "b")
