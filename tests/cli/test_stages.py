"""The verbs that run experiments: which stages they run, what they print and write."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from robo_rl.cli.main import main
from robo_rl.cli.output import write_json
from robo_rl.cli.stages import format_rate
from robo_rl.core.errors import GateError


def measured(value: float) -> dict[str, Any]:
    return {"value": value, "low": value - 0.05, "high": value + 0.05, "n": 200, "protocol": "ab"}


def stage(index: int, name: str, seconds: float, **more: Any) -> dict[str, Any]:
    body = {"numbers": {}, "artifacts": {}, "files": {}, "status": "passed"}
    return {"stage": name, "seconds": seconds, "directory": f"{index:02d}-{name}", **body, **more}


LATENCY = {"k_step_p50": 900.0, "k_step_p99": 990.0, "one_step_p50": 90.0, "one_step_p99": 99.0}
TIMED = {
    **{"teacher_p50": 900.0, "teacher_p99": 990.0, "onnx_p50": 90.0, "onnx_p99": 99.0},
    **{"torch_p50": 300.0, "torch_p99": 330.0},  # the one-step policy before export
}
RESULT = {
    "name": "demo",
    "directory": "runs/demo",
    "stages": [
        stage(0, "collect", 60.0),
        stage(1, "bc", 60.0, numbers={"success": measured(0.6)}),
        stage(
            2,
            "online",
            120.0,
            numbers={"success": measured(0.9), "env_steps": 12345},
            files={"rollout": "rollout.mp4"},
        ),
        stage(3, "distill", 30.0, numbers={"success": measured(0.875)}),
        stage(4, "export", 30.0, numbers={"latency_us": TIMED}, artifacts={"bundle": "bundle"}),
    ],
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Calls to a pipeline that gives ``RESULT``."""
    made: list[tuple[object, ...]] = []

    def run_experiment(
        name: str,
        overrides: list[str],
        out: Path,
        *,
        until: str | None = None,
        on_stage_end: object,
    ):
        made.append((name, overrides, out, until))
        return RESULT

    fake = SimpleNamespace(run_experiment=run_experiment)
    monkeypatch.setitem(sys.modules, "robo_rl.train.pipeline.run", fake)
    return made


@pytest.mark.parametrize(
    ("verb", "until"),
    [
        ("collect", "collect"),
        ("train", "online"),
        ("distill", "distill"),
        ("export", "export"),
        ("run", None),
    ],
)
def test_a_verb_runs_up_to_its_stage(
    verb: str,
    until: str | None,
    calls: list[tuple[object, ...]],
    capsys: pytest.CaptureFixture[str],
):
    assert main([verb, "demo", "seed=3", "stages.bc.steps=7", "--out", "elsewhere"]) == 0
    assert calls == [("demo", ["seed=3", "stages.bc.steps=7"], Path("elsewhere"), until)]
    assert "60.0 % [55.0, 65.0] of 200" in capsys.readouterr().out


def test_what_gates_saw_and_what_was_estimated_is_said(
    calls: list[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    gate = {"name": "off-policy evaluation", "passed": True, "waiver": None}
    value = {"value": 0.28, "low": 0.0, "high": 1.0, "n": 30, "unit": "reward"}
    stages = [
        stage(0, "offline", 9.0, gate={**gate, "detail": "better; the new policy goes on"}),
        stage(1, "again", 9.0, gate={**gate, "detail": "worse", "waiver": "I know"}),
        stage(2, "ope", 9.0, numbers={"value": value}, gate=None),
        stage(3, "theirs", 9.0, numbers={"value": 3.0}, gate=None),  # a plugin's, of its own kind
    ]
    monkeypatch.setitem(RESULT, "stages", stages)
    assert main(["run", "demo"]) == 0
    assert calls
    shown = capsys.readouterr().out.splitlines()
    assert "offline: better; the new policy goes on" in shown
    assert "again: worse; waived: I know" in shown
    assert not [line for line in shown if line.startswith("theirs:")]
    assert "ope: estimated 0.28 [0, 1] of 30" in shown


def test_rates_and_returns_are_shown_with_the_interval_that_they_have():
    assert format_rate(measured(0.5)) == "50.0 % [45.0, 55.0] of 200"
    alone = {"value": 12.5, "low": None, "high": None, "n": 1, "unit": "reward"}
    assert format_rate(alone) == "12.5 of 1"


def test_run_stops_where_it_is_told(calls: list[tuple[object, ...]], tmp_path: Path):
    assert main(["run", "demo", "--until", "bc", "--json", str(tmp_path / "a" / "b.json")]) == 0
    assert calls == [("demo", [], Path("runs"), "bc")]
    assert json.loads((tmp_path / "a" / "b.json").read_text()) == RESULT


def test_numbers_that_cannot_be_written_are_one_line_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], calls: list[tuple[object, ...]]
):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "a.json", tmp_path):
        assert main(["run", "demo", "--json", str(place)]) == 2
        assert f"{place}: could not be written" in capsys.readouterr().err
    assert not calls


@pytest.mark.parametrize("place", ["/dev/fd/9999", "/proc/nope/a.json"])
def test_a_stream_that_is_not_there_is_one_line_before_anything_runs(
    place: str, capsys: pytest.CaptureFixture[str], calls: list[tuple[object, ...]]
):
    assert main(["run", "demo", "--json", place]) == 2
    assert f"{place}: could not be written" in capsys.readouterr().err
    assert not calls


def test_a_file_in_shared_memory_is_a_file():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path = Path(folder) / "a.json"
        for number in (1, 2):
            write_json(path, {"a": number})
        assert json.loads(path.read_text()) == {"a": 2}


@pytest.mark.parametrize("verb", ["run", "demo"])
@pytest.mark.parametrize("processes", [1, 2])
def test_the_stages_before_a_failed_gate_are_written(
    verb: str, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ran = {**RESULT, "stages": RESULT["stages"][:2]}

    def run_experiment(*_: object, on_stage_end: Any, **__: object):
        on_stage_end(ran)
        raise GateError("stage 'bc' did not pass")

    def run_processes(*_: object):
        raise SystemExit(GateError.status)

    pipeline = "robo_rl.train.pipeline"
    fake = SimpleNamespace(run_experiment=run_experiment, failed_run=lambda *_: ran)
    monkeypatch.setitem(sys.modules, f"{pipeline}.run", fake)
    monkeypatch.setattr(f"{pipeline}.processes.launch.num_processes", lambda *_: processes)
    monkeypatch.setattr(f"{pipeline}.processes.launch.run_processes", run_processes)
    words = ["demo"] if verb == "demo" else ["run", "demo"]
    assert main([*words, "--json", str(tmp_path / "a.json")]) == 2
    assert json.loads((tmp_path / "a.json").read_text()) == ran


def test_numbers_go_to_a_pipe_too():
    reading, writing = os.pipe()
    write_json(Path(f"/dev/fd/{writing}"), {"a": 1})
    assert json.loads(os.read(reading, 100)) == {"a": 1}
    for end in (reading, writing):
        os.close(end)


def test_a_link_is_written_through_and_stays(tmp_path: Path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link.json", tmp_path / "there" / "target.json"
    link.symlink_to(target)
    for number in (1, 2):
        write_json(link, {"a": number})
        assert json.loads(target.read_text()) == {"a": number}
    assert link.is_symlink()


def test_what_this_process_has_open_is_added_to_and_not_replaced(tmp_path: Path):
    with (tmp_path / "out.txt").open("w") as out:
        out.write("a table\n")
        out.flush()
        write_json(Path(f"/dev/fd/{out.fileno()}"), {"a": 1})
    assert (tmp_path / "out.txt").read_text().startswith("a table\n{")


@pytest.mark.usefixtures("calls")
def test_the_demo_writes_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--json", str(tmp_path / "demo.json")]) == 0
    assert json.loads((tmp_path / "demo.json").read_text()) == {
        "bc": pytest.approx({"success": 0.6, "low": 0.55, "high": 0.65, "episodes": 200}),
        "rl": pytest.approx({"success": 0.9, "low": 0.85, "high": 0.95, "episodes": 200}),
        "one_step": pytest.approx({"success": 0.875, "low": 0.825, "high": 0.925, "episodes": 200}),
        "env_steps": 12345,
        "minutes": 5.0,
        "latency_us": LATENCY,
        "bundle": "runs/demo/04-export/bundle",
        "report": "runs/demo/report.html",
    }
    shown = capsys.readouterr().out
    for said in ("87.5 %", "[82.5, 92.5]", "12,345", "5.0", "90 µs", "runs/demo/report.html"):
        assert said in shown
    assert "online rollout: runs/demo/02-online/rollout.mp4" in shown


@pytest.fixture
def lift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "task").mkdir(parents=True)
    (tmp_path / "configs" / "task" / "mine.yaml").write_text("name: lift_cube\n")


@pytest.mark.usefixtures("lift")
def test_config_prints_what_is_composed(capsys: pytest.CaptureFixture[str]):
    assert main(["config", "task/mine", "seed=3", "--no-check"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == {"task": {"name": "lift_cube"}, "seed": 3}


@pytest.mark.usefixtures("lift")
def test_config_explains_where_values_come_from(capsys: pytest.CaptureFixture[str]):
    words = ["seed=3", "start=[1, true]", "--no-check", "--explain"]
    assert main(["config", "task/mine", *words]) == 0
    lines = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["key", "value", "from"],
        ["task.name", "lift_cube", "configs/task/mine.yaml:1"],
        ["seed", "3", "override 'seed=3'"],
        ["start", "[1, true]", "override 'start=[1, true]'"],
    ]


@pytest.mark.usefixtures("lift")
def test_an_experiment_that_does_not_exist(capsys: pytest.CaptureFixture[str]):
    assert main(["config", "task/mie"]) == 2
    assert "did you mean 'task/mine'?" in capsys.readouterr().err
