"""More episodes for a gate: what was trained stays, and what is measured is that of a fresh run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT, EXPORT, STAGES, Runner, outcome, write_experiment

from robo_rl.bundle.bundle import Bundle
from robo_rl.config.models import ConfigTree
from robo_rl.config.registry import load, names
from robo_rl.core.errors import CheckpointError, ConfigError
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline import reevaluation as again
from robo_rl.train.pipeline import run as pipeline
from robo_rl.train.pipeline.run import run_experiment
from robo_rl.train.pipeline.stage import Report
from robo_rl.train.stages import video

MORE = {**EXPERIMENT["eval"], "episodes": 12, "seed": 3}
EVALUATED = ("report.json", "evaluation.json", "digest", "evaluated", "bundle")


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(video, "render_policy_video", lambda *_args, **_kwargs: None)
        yield


def run(out: Path, *, until: str | None = None, **changes: Any) -> dict[str, Any]:
    return run_experiment(ConfigTree({**EXPERIMENT, **changes}, {}), [], out, until=until)


def trained(directory: Path) -> dict[str, tuple[int, bytes]]:
    """When all that is not evaluation was written, and what it is."""
    files = [file for file in directory.glob("0*/**/*") if file.is_file()]
    return {
        str(file): (file.stat().st_mtime_ns, file.read_bytes())
        for file in files
        if not {*file.relative_to(directory).parts} & {*EVALUATED}
    }


LOOKS = ("earlier", "gate", "status")
"""What depends on the number of looks at a comparison."""


def without_looks(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {k: v for k, v in each.items() if k not in LOOKS} if isinstance(each, dict) else each
        for name, each in found.items()
    }


@pytest.mark.slow
def test_more_episodes_evaluate_again_and_train_nothing(road: Any, tmp_path: Path):
    shutil.copytree(road.out, tmp_path / "runs")
    directory = tmp_path / "runs" / "tiny"
    before, reports = trained(directory), outcome(directory)
    result = run(tmp_path / "runs", eval=MORE)
    assert trained(directory) == before
    fresh = run(tmp_path / "fresh", eval=MORE)
    found = without_looks(outcome(directory))
    assert found == without_looks(outcome(tmp_path / "fresh" / "tiny"))
    for stage, new in zip(result["stages"], fresh["stages"], strict=True):
        assert list(stage["numbers"]) == list(new["numbers"])
        assert stage["digest"] == new["digest"]
    for number in (2, 3):
        assert "look" not in fresh["stages"][number]["gate"]["detail"]
        assert "; look 2, interval of 97.5 %" in result["stages"][number]["gate"]["detail"]
    (was,) = result["stages"][2]["earlier"]
    assert was["eval"]["episodes"] == 8
    assert was["gate"] == reports["02-online"]["gate"]
    page = (directory / "report.html").read_text()
    assert "earlier, of 8 episodes from seed 0" in page
    assert run(tmp_path / "runs", eval=MORE) == result  # and a third time does nothing


@pytest.mark.slow
def test_a_bundle_is_proven_anew_by_more_episodes(exported: Any, tmp_path: Path):
    shutil.copytree(exported.out, tmp_path / "runs")
    before = trained(tmp_path / "runs" / "tiny")
    result = run(tmp_path / "runs", **EXPORT, eval=MORE)
    assert trained(tmp_path / "runs" / "tiny") == before
    assert result["stages"][4]["numbers"]["closed_loop_success"]["n"] == 12
    assert result["stages"][4]["world"] == result["stages"][0]["world"] != {}
    manifest = Bundle.load(tmp_path / "runs" / "tiny" / "04-export" / "bundle").manifest
    config: Any = manifest.config
    assert config["eval"]["episodes"] == 12
    assert [gate.detail for gate in manifest.gates[:-1]] == [
        stage["gate"]["detail"] for stage in result["stages"][:-1]
    ]


def test_what_else_has_changed_is_refused_as_ever(road: Any, tmp_path: Path):
    shutil.copytree(road.out, tmp_path / "runs")
    others: list[dict[str, Any]] = [
        {"eval": MORE, "seed": 1},
        {"eval": MORE, "stages": {**STAGES, "bc": {**STAGES["bc"], "steps": 61}}},
        {"eval": {**MORE, "measure": "return"}},
    ]
    for changes in others:
        with pytest.raises(ConfigError, match="holds a stage of another configuration"):
            run(tmp_path / "runs", **changes)


def test_a_stage_that_says_nothing_of_evaluating_again_is_refused(
    road: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One of a plugin, for example, that evaluates in the middle of its training."""
    from robo_rl.train.stages.behaviour_cloning import CloneBehaviour

    shutil.copytree(road.out, tmp_path / "runs")
    monkeypatch.delattr(CloneBehaviour, "evaluate")
    with pytest.raises(ConfigError, match=r"01-bc.*another configuration.*eval\.episodes: 8 → 12"):
        run(tmp_path / "runs", eval=MORE)


@pytest.mark.parametrize("name", names("stages"))
def test_every_stage_of_ours_that_evaluates_can_be_evaluated_again(name: str):
    cls = load("stages", name)
    asked = cls.evaluates and (cls.reads is None or "eval" in cls.reads)
    assert asked == hasattr(cls, "evaluate")
    assert asked == (
        name
        in {
            "bc",
            "offline",
            "online",
            "distill",
            "opd",
            "export",
            "ope",
            "policy",
            "variants",
        }
    )


@pytest.mark.parametrize("noted", [True, False])
def test_what_was_interrupted_between_two_stages_is_gone_on_with(
    road: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, noted: bool
):
    """Also of a run that is older than the notes."""
    shutil.copytree(road.out, tmp_path / "runs")
    directory = tmp_path / "runs" / "tiny"
    for file in () if noted else directory.glob("0*/evaluation.json"):
        file.unlink()
    before = trained(directory)
    calls = iter(range(10))

    def torn(*arguments: Any) -> Any:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return again.reevaluate_stage(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "reevaluate_stage", torn)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "runs", eval=MORE)
    found = [json.loads(x.read_text()) for x in sorted(directory.glob("0*/report.json"))]
    assert [each["numbers"].get("success", {}).get("n") for each in found] == [6, 12, 12, 8]
    result = run(tmp_path / "runs", eval=MORE)
    assert [each["numbers"]["success"]["n"] for each in result["stages"]] == [6, 12, 12, 12]
    assert trained(directory) == before


def test_a_gate_that_cannot_tell_says_how_many_episodes_would(
    runner: Runner, road: Any, tmp_path: Path
):
    shutil.copytree(road.out, tmp_path / "runs")
    directory = tmp_path / "runs" / "tiny"
    config = write_experiment(tmp_path, waive={})
    shutil.rmtree(directory / "03-distill")
    kept = Report.read(directory / "02-online")
    assert kept is not None
    assert kept.gate is not None
    kept.gate = kept.gate.model_copy(update={"waiver": None})
    kept.write(directory / "02-online")
    ended = runner.run("run", config, "--out", tmp_path / "runs")
    assert ended.status == 2
    assert "stage 'online' cannot tell 'no worse than before': difference " in ended.output
    assert (
        f"eval.episodes={kept.gate.episodes_needed} evaluates again and trains nothing"
        in ended.output
    )
    report = json.loads((directory / "02-online" / "report.json").read_text())
    assert report["status"] == report["gate"]["answer"] == "cannot tell"
    page = (directory / "report.html").read_text()
    assert "pill cannot-tell" in page
    assert "cannot be told yet" in page


def test_a_half_trained_stage_goes_on_under_another_protocol(road: Any, tmp_path: Path):
    shutil.copytree(road.out, tmp_path / "runs")
    directory = tmp_path / "runs" / "tiny"
    shutil.rmtree(directory / "03-distill")
    (directory / "02-online" / "report.json").unlink()
    shutil.rmtree(directory / "02-online" / "ckpt" / "000002")
    result = run(tmp_path / "runs", eval=MORE)
    assert result["stages"][2]["numbers"]["success"]["n"] == 12
    assert result["stages"][2]["numbers"]["updates"] == 2
    assert result["stages"][2]["earlier"] == []


@pytest.mark.parametrize("damaged", [b"", b"\xff3ab", b"3ab z"])
def test_a_damaged_digest_is_told_as_damaged(tmp_path: Path, damaged: bytes):
    (tmp_path / "digest").write_bytes(damaged)
    with pytest.raises(CheckpointError, match="digest: is damaged; expected hexadecimal digits"):
        again.read_digest(tmp_path)
    assert again.read_mark(tmp_path) is None
    (tmp_path / "digest").write_bytes(b"3ab0")
    assert again.read_digest(tmp_path) == "3ab0"


@pytest.mark.parametrize("damaged", [b"", b"\xff3ab"])
def test_a_damaged_digest_is_that_of_the_second_record(tmp_path: Path, damaged: bytes):
    again.write_mark(tmp_path, again.StageMark("3ab0", EvalProtocol(episodes=7)))
    (tmp_path / "digest").write_bytes(damaged)
    assert again.read_digest(tmp_path) == "3ab0"
    (tmp_path / "evaluation.json").write_bytes(b'{"digest": "x"}')
    with pytest.raises(CheckpointError, match="digest: is damaged"):
        again.read_digest(tmp_path)
