"""The road from demonstrations to a bundle: run once, not again, and never mixed with another."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import EXPERIMENT, EXPORT, STAGES
from small_world_plugin import Plugin
from torch import Tensor

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import ConfigTree
from robo_rl.core.errors import (
    CheckpointError,
    ConfigError,
    DeviceError,
    GateError,
    RoboRlError,
    SpecError,
)
from robo_rl.core.seeding import derive
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.metrics_log import read_metrics
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.reevaluate import evaluate_path
from robo_rl.train.pipeline.run import failed_run, run_experiment
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.stages import video
from robo_rl.train.stages.data.collect_demonstrations import CollectDemonstrations


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    """Drawing is tested elsewhere, and takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(video, "render_policy_video", lambda *_args, **_kwargs: None)
        yield


def run(out: Path, *, until: str | None = None, **changes: Any) -> dict[str, Any]:
    return run_experiment(ConfigTree({**EXPERIMENT, **changes}, {}), [], out, until=until)


def stamps(directory: Path) -> dict[Path, int]:
    """When each of the stages' files was last written."""
    files = [file for file in directory.glob("0*/**/*") if file.is_file()]
    return {file: file.stat().st_mtime_ns for file in files}


@pytest.fixture(scope="module")
def result(exported: Any) -> dict[str, Any]:
    """What ``robo-rl run --json`` said of the whole road, export included."""
    return json.loads((exported.out.parent / "result.json").read_text())


@pytest.fixture
def done(road: Any, tmp_path: Path) -> Path:
    """The folder of runs of a road that ends with distillation, to be meddled with."""
    shutil.copytree(road.out, tmp_path / "runs")
    return tmp_path / "runs"


def test_the_road_ends_in_a_bundle(exported: Any, result: dict[str, Any]):
    stages = {stage["stage"]: stage for stage in result["stages"]}
    assert list(stages) == ["collect", "bc", "online", "distill", "export"]
    assert all(stage["status"] in ("passed", "waived") for stage in stages.values())
    for name in ("bc", "online", "distill"):
        assert stages[name]["numbers"]["success"]["n"] == 8
        assert load_policy(exported.directory / stages[name]["directory"] / "policy").horizon == 4
    protocols = {stages[name]["numbers"]["success"]["protocol"] for name in ("bc", "distill")}
    assert len(protocols) == 1
    assert 2 * 8 * 3 * 3 < stages["online"]["numbers"]["env_steps"] <= 2 * 8 * 3 * 4
    rows = read_metrics(exported.directory / "02-online" / "metrics.jsonl")
    assert all(0.0 < row["rew/reach"] < 1.0 for row in rows)
    bundle = Bundle.load(exported.directory / "04-export" / "bundle")
    assert [gate.name for gate in bundle.manifest.gates[:-1]] == [
        stages[name]["gate"]["name"] for name in ("collect", "bc", "online", "distill")
    ]
    for gate in bundle.manifest.gates:
        assert gate.passed or gate.waiver == "too short to pass"
    assert (exported.directory / "report.html").stat().st_size > 10_000
    assert result["minutes"] == sum(stage["seconds"] for stage in stages.values()) / 60


def test_a_second_run_does_nothing_and_says_the_same(
    exported: Any, result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    before, made_by = stamps(exported.directory), exported.directory / "run.json"
    said = made_by.read_bytes()
    assert len(before) > 20
    monkeypatch.setattr(
        "robo_rl.train.pipeline.run_directory.versions", lambda: {"robo-rl": "another"}
    )
    for until in (None, "bc"):
        run(exported.out, until=until, **EXPORT)
        assert made_by.read_bytes() == said
    assert run(exported.out, **EXPORT) == result
    assert stamps(exported.directory) == before


def test_the_bundle_and_the_student_are_evaluated_again_alike(
    exported: Any, result: dict[str, Any]
):
    student = evaluate_path(exported.directory / "03-distill")
    assert student.numbers() == result["stages"][3]["numbers"]["success"]
    bundle = evaluate_path(exported.directory / "04-export" / "bundle")
    assert bundle.protocol == student.protocol
    assert bundle.rate == result["stages"][4]["numbers"]["closed_loop_success"]["value"]
    other = evaluate_path(exported.directory / "03-distill", episodes=4, seed=1)
    assert len(other.success) == 4
    assert other.protocol != student.protocol


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"stages": {**STAGES, "distill": {**STAGES["distill"], "steps": 31}}},
        {"stages": {"collect": STAGES["collect"], "clone": {"name": "bc"}}, "waive": {}},
    ],
)
def test_the_directory_of_another_run_is_refused_untouched(done: Path, changes: dict[str, Any]):
    before = (done / "tiny" / "config.yaml").read_bytes(), stamps(done / "tiny")
    with pytest.raises(ConfigError, match=r"holds a stage of another configuration.*name="):
        run(done, **changes)
    assert ((done / "tiny" / "config.yaml").read_bytes(), stamps(done / "tiny")) == before


def test_a_stage_that_was_begun_under_another_config_is_refused(done: Path):
    for name in ("02-online", "03-distill"):
        (done / "tiny" / name / "report.json").unlink()
    longer = {**STAGES, "online": {**STAGES["online"], "updates": 3}}
    with pytest.raises(ConfigError, match=r"02-online.*another configuration"):
        run(done, stages=longer)


def test_a_failed_gate_stops_until_it_is_waived(tmp_path: Path):
    easy = {"bc": {**STAGES["bc"], "steps": 1}}
    hopeless = {
        "task": {**EXPERIMENT["task"], "success_m": 0.03},
        "stages": {**STAGES, **easy},
    }
    with pytest.raises(GateError, match=r"01-bc.*'learnt'.*waive\.bc='why'"):
        run(tmp_path, **hopeless, waive={})
    assert not (tmp_path / "tiny" / "02-online").exists()
    tree = {**EXPERIMENT, **hopeless, "waive": {}}
    found = failed_run(ConfigTree(tree, {}), [], tmp_path)
    assert found is not None
    assert [stage["status"] for stage in found["stages"]] == ["passed", "failed"]
    assert failed_run(ConfigTree({**tree, "seed": 7}, {}), [], tmp_path) is None
    with pytest.raises(GateError, match="'learnt'"):
        run(tmp_path, **hopeless, waive={"online": "not this one"}, until="bc")
    before = stamps(tmp_path / "tiny" / "01-bc")
    result = run(tmp_path, **hopeless, waive={"bc": "to see more"}, until="bc")
    assert [stage["status"] for stage in result["stages"]] == ["passed", "waived"]
    kept = Report.read(tmp_path / "tiny" / "01-bc")
    assert kept is not None
    assert kept.gate is not None
    assert (kept.status, kept.gate.waiver) == ("waived", "to see more")
    assert stamps(tmp_path / "tiny" / "01-bc").keys() == before.keys()
    assert failed_run(ConfigTree(tree, {}), [], tmp_path) is None
    with pytest.raises(GateError, match="'learnt'"):
        run(tmp_path, **hopeless, waive={}, until="bc")


def test_only_what_is_asked_for_is_run(tmp_path: Path):
    result = run(tmp_path, until="collect")
    assert [stage["stage"] for stage in result["stages"]] == ["collect"]
    assert sorted(path.name for path in (tmp_path / "tiny").glob("0*")) == ["00-collect"]
    with pytest.raises(ConfigError, match=r"no stage 'onlin'.*did you mean 'online'"):
        run(tmp_path, until="onlin")


def test_packages_that_a_later_stage_lacks_are_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(DeviceError, match=r"exporting needs onnxscript; .*robo-rl\[export\]"):
        run(tmp_path, **EXPORT)
    assert not list((tmp_path / "tiny").glob("0*"))
    run(tmp_path, **EXPORT, until="collect")  # which needs none


def start_features(policy: DenoisingPolicy, seed: int) -> Tensor:
    """What its networks see where 64 episodes of the tiny experiment start."""
    experiment = Experiment.model_validate(EXPERIMENT)
    with closing(experiment.make_env(64)) as env:
        obs = env.reset(seed)
    return policy.features({name: seen[:, None] for name, seen in obs.items()}).vectors


def test_starts_of_episodes_are_within_the_ranges_that_include_them(tmp_path: Path):
    stages = {
        "collect": {"episodes": 1, "num_envs": 1},
        "bc": {"steps": 1, "num_reset_samples": 64},
    }
    run(tmp_path, stages=stages, waive=dict.fromkeys(stages, "untrained"))
    policy = load_policy(tmp_path / "tiny" / "01-bc" / "policy")
    seen = start_features(policy, seed=derive("starts", 0))
    assert seen.abs().max() <= 1.0 + 1e-5
    other = start_features(policy, seed=derive("starts", 1))
    assert 0.9 < other.abs().max() < 2.0  # 64 others lie hardly beyond these


@pytest.mark.slow
def test_a_clone_in_bfloat16_is_nearly_that_in_float32(tmp_path: Path):
    def loss(precision: str) -> float:
        bc = {"steps": 20, "batch": 64, "precision": precision}
        stages = {"collect": {"episodes": 1, "num_envs": 1}, "bc": bc}
        waive = dict.fromkeys(stages, "short")
        result = run(tmp_path / precision, stages=stages, waive=waive)
        return result["stages"][1]["numbers"]["loss"]

    exact, short = loss("fp32"), loss("bf16")
    assert short != exact
    assert short == pytest.approx(exact, rel=0.02)


def test_time_adds_up_over_sittings(tmp_path: Path):
    run(tmp_path, until="collect")
    place = tmp_path / "tiny" / "01-bc"
    place.mkdir()
    (place / "seconds").write_text("600.0")
    result = run(tmp_path, until="bc")
    assert 600.0 < result["stages"][1]["seconds"] < 660.0
    assert 10.0 < result["minutes"] < 12.0


def test_what_killed_writers_left_is_cleared_away(tmp_path: Path):
    place = tmp_path / "tiny" / "00-collect"
    place.mkdir(parents=True)
    (place / ".tmp-report.json-0a1b2c3d").write_text("{")
    run(tmp_path, until="collect")
    assert not list((tmp_path / "tiny").rglob(".tmp-*"))


def test_the_config_that_is_kept_is_the_one_that_was_run(done: Path):
    kept = yaml.safe_load((done / "tiny" / "config.yaml").read_text())
    assert kept["stages"]["bc"]["optim"]["grad_clip"] == 1.0
    again = run_experiment(str(done / "tiny" / "config.yaml"), [], done)
    assert [stage["stage"] for stage in again["stages"]] == list(STAGES)


def test_action_tokens_are_cloned_fine_tuned_and_distilled(tmp_path: Path):
    policy = {**EXPERIMENT["policy"], "name": "tokens", "num_steps": 4, "bins": 8}
    directory = Path(run(tmp_path, policy=policy)["directory"])
    rows = read_metrics(directory / "02-online" / "metrics.jsonl")
    assert float(rows[-1]["ratio_error"]) < 1e-5
    assert 0.0 < float(rows[-1]["kl"]) < 1.0
    teacher, student = (
        load_policy(directory / name / "policy") for name in ("02-online", "03-distill")
    )
    assert (teacher.family, student.family, student.num_steps) == ("tokens", "flow", 1)


def test_tokens_that_do_not_divide_a_chunk_are_refused_before_demonstrations(tmp_path: Path):
    policy = {**EXPERIMENT["policy"], "name": "tokens", "num_steps": 3}
    with pytest.raises(SpecError, match="no equal parts"):
        run(tmp_path, policy=policy)
    assert not list(tmp_path.glob("*/00-collect/data.zarr"))


@pytest.mark.parametrize(
    ("number", "error", "says"),
    [
        (errno.ENOSPC, CheckpointError, r"could not be written: No space left.*free space"),
        (errno.EACCES, CheckpointError, r"could not be written: Permission denied"),
        (errno.ENOENT, RoboRlError, r"/arm\.xml: cannot be used: No such file"),
        (errno.ECONNREFUSED, RoboRlError, r"cannot be used: Connection refused"),
    ],
)
def test_an_error_of_a_file_says_what_it_is(tmp_path: Path, monkeypatch, number, error, says):
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number), "/arm.xml")

    monkeypatch.setattr(CollectDemonstrations, "run", fail)
    with pytest.raises(error, match=says) as found:
        run(tmp_path, until="collect")
    assert ("free space" in str(found.value)) is (error is CheckpointError)


def test_a_plugin_that_opens_a_missing_file_is_not_taken_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """``main`` names the plug-in and its line."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugin = Plugin(tmp_path / "site")
    reads = "    def __init__(self, *args, **fields):\n        open('/none')"
    plugin.change("acme_policies.py", "    pass", reads)
    stages = {"scratch": {"num_envs": 2, "steps": 4}}
    policy = {**EXPERIMENT["policy"], "name": "acme"}
    with pytest.raises(FileNotFoundError):
        run(tmp_path / "runs", policy=policy, stages=stages, waive={})
    shutil.rmtree(plugin.root)
    plugin.renew()
