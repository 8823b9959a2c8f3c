"""Stage ``opd``: a student that sees less is drawn to a teacher that sees all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.on_policy_distillation import Teacher, chain_kl
from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError, DataError, SpecError
from robo_rl.train.checkpoint.policies import load_policy, weights_digest
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.stages.distillation.on_policy import DistillOnPolicy
from robo_rl.train.stages.distillation.rounds import DistillationRounds
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
    folder = tmp_path_factory.mktemp("teacher")
    return make_policy(experiment(str(folder), seed=0), folder / "00-scratch")[0]


def distil(wanted: Experiment, folder: Path) -> Report:
    made = make_policy(wanted, folder / "00-scratch")
    return DistillOnPolicy(wanted.stages["opd"].cfg).run(Context(wanted, folder / "01-opd", [made]))


def test_a_student_that_sees_less_comes_nearer_and_its_teacher_is_known(teacher, tmp_path: Path):
    report = distil(experiment(str(teacher), seed=1, sees=SEES), tmp_path)
    first, last = (load_policy(tmp_path / place / "policy") for place in ("00-scratch", "01-opd"))
    told = load_policy(teacher / "policy")
    obs = {
        name: torch.randn(500, 1, *spec.shape, generator=torch.Generator().manual_seed(4))
        for name, spec in told.env_spec.items.items()
    }

    def apart(student: Any) -> float:
        draws = torch.Generator().manual_seed(5)
        return float(chain_kl(student, Teacher(told, student), EncodedObs(obs), 0.1, draws).mean())

    with torch.no_grad():
        assert apart(last) < 0.7 * apart(first)
    assert 0 < report.numbers["env_steps"] <= 2 * 4 * 3 * 4
    assert {"success", "teacher_success"} <= report.numbers.keys()
    assert report.numbers["teacher"] == weights_digest(load_policy(teacher / "policy"))
    assert report.gate is not None
    assert "teacher" in report.gate.name


def test_a_teacher_that_is_not_there_or_has_other_chains_is_refused(teacher, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"no teacher.*nowhere"):
        distil(experiment(str(tmp_path / "nowhere"), seed=1), tmp_path / "a")
    with pytest.raises(SpecError, match="another horizon"):
        distil(experiment(str(teacher), seed=1, horizon=8), tmp_path / "b")


@pytest.mark.slow
def test_another_teacher_in_its_place_is_not_compared_with(teacher, tmp_path: Path):
    mine = tmp_path / "teacher"
    shutil.copytree(teacher, mine)
    wanted = experiment(str(mine), seed=1)
    report = distil(wanted, tmp_path)
    shutil.copytree(tmp_path / "00-scratch" / "policy", mine / "policy", dirs_exist_ok=True)
    stage = DistillOnPolicy(wanted.stages["opd"].cfg)
    with pytest.raises(DataError, match="another policy than the student's teacher"):
        stage.evaluate(Context(wanted, tmp_path / "01-opd", []), report)


def cut_off(wanted: Experiment, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts a run within its second round, once."""
    step, number = DistillationRounds.step, 0

    def cut(self: DistillationRounds) -> Any:
        nonlocal number
        number += 1
        if number == OPD["steps"] + 7:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(DistillationRounds, "step", cut)
    with pytest.raises(KeyboardInterrupt):
        distil(wanted, folder)


def test_a_run_does_not_go_on_with_another_teacher(teacher, tmp_path: Path, monkeypatch):
    mine = tmp_path / "teacher"
    shutil.copytree(teacher, mine)
    wanted = experiment(str(mine), seed=1)
    with monkeypatch.context() as patch:
        cut_off(wanted, tmp_path / "run", patch)
    shutil.copytree(tmp_path / "run" / "00-scratch" / "policy", mine / "policy", dirs_exist_ok=True)
    with pytest.raises(DataError, match="another policy than the student's teacher"):
        distil(wanted, tmp_path / "run")


@pytest.mark.slow
def test_a_run_that_is_cut_off_within_a_round_ends_as_one_that_is_not(
    teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It goes on from the end of the round before, and collects no round twice."""
    wanted = experiment(str(teacher), seed=1, sees=SEES)
    whole = distil(wanted, tmp_path / "whole")
    cut_off(wanted, tmp_path / "cut", monkeypatch)
    again = distil(wanted, tmp_path / "cut")
    assert again.numbers["env_steps"] == whole.numbers["env_steps"]
    one, other = (load_policy(tmp_path / name / "01-opd" / "policy") for name in ("whole", "cut"))
    assert weights_digest(one) == weights_digest(other)
