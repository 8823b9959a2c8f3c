"""A whole experiment on a GPU: stages hand on what they make, on whatever device that is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pretended_gpu import CPU, GPU, PretendedGpu
from small_runs import EXPERIMENT, STAGES, write_experiment

from robo_rl.config.models import validate
from robo_rl.core.errors import CheckpointError, ConfigError, DeviceError
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.checkpoint.series import CheckpointSeries
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage_digest import stage_digest

QUICK = {**EXPERIMENT, "eval": {"episodes": 2, "num_envs": 2}}
LEARNT = {"offline": {"critic_steps": 3, "steps": 2, "holdout_fraction": 0.0, "fqe": {"steps": 2}}}


def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Experiment, "place", property(lambda self: GPU))
    for stage in ("behaviour_cloning", "distillation.one_step", "online_rl", "offline_rl"):
        monkeypatch.setattr(f"robo_rl.train.stages.{stage}.record_video", lambda *_: {})  # slow


def run(tmp_path: Path, stages: dict[str, Any], **changes: Any) -> dict[str, Any]:
    waive = dict.fromkeys(stages, "too short to pass")
    config = write_experiment(tmp_path, **{**QUICK, "stages": stages, "waive": waive, **changes})
    return run_experiment(str(config), [], tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize(
    "stages", [STAGES, {"collect": STAGES["collect"], "bc": STAGES["bc"], **LEARNT}]
)
def test_stages_run_where_the_device_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: dict[str, Any]
):
    on_gpu(monkeypatch)
    with PretendedGpu() as gpu:
        done = run(tmp_path, stages)
    assert [stage["stage"] for stage in done["stages"]] == list(stages)
    policy = load_policy(tmp_path / "runs" / "tiny" / done["stages"][-1]["directory"] / "policy")
    assert policy.device == CPU
    assert any("optim/optimizer.py" in line for line, _ in gpu.waits)  # what learns is there
    assert all(bool(p.isfinite().all()) for p in policy.parameters())


def test_a_checkpoint_goes_on_where_it_was_made_and_nowhere_else(tmp_path: Path):
    here, there = CheckpointSeries(tmp_path), CheckpointSeries(tmp_path, device="cuda")
    here.save(1, {"x": torch.ones(2)})
    assert here.load_latest()["x"].tolist() == [1.0, 1.0]
    with pytest.raises(CheckpointError, match=r"expected cuda, found cpu.*device=cpu"):
        there.load_latest()


def test_the_usual_device_is_not_said_and_the_processor_changes_no_digest():
    usual, said = (validate({**QUICK, **more}, Experiment) for more in ({}, {"device": "cpu"}))
    assert "device" not in usual.model_dump(mode="json")
    assert said.model_dump(mode="json")["device"] == "cpu"
    assert stage_digest(said, 1) == stage_digest(usual, 1, "cpu") != stage_digest(usual, 1, "cuda")


def test_a_device_that_is_not_there_is_one_error_and_nothing_is_written(tmp_path: Path):
    with pytest.raises(DeviceError, match=r"'cuda:77' does not exist.*device=cpu"):
        run(tmp_path, STAGES, device="cuda:77")
    assert not (tmp_path / "runs").exists()
    with pytest.raises(ConfigError, match="device"):
        run(tmp_path, STAGES, device="tpu")


def test_a_run_of_another_device_is_refused_in_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    collect = {"collect": {"episodes": 1, "num_envs": 1}}
    run(tmp_path, collect, device="cpu")
    monkeypatch.setattr(Experiment, "place", property(lambda self: torch.device("cuda", 0)))
    with pytest.raises(ConfigError, match=r"made on another device.*expected cuda, found cpu"):
        run(tmp_path, collect, device="cpu")
