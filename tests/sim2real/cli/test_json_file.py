"""``--json FILE`` of the verbs of deployment: tested before anything starts, told at the end."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from small_bundles import make_bundle
from small_domains import free_domain

from robo_rl.cli.main import main
from robo_rl.config.registry import load
from robo_rl_sim2real.cli.deploy import _estate
from robo_rl_sim2real.recording.sinks import DirectSink

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

DOMAIN = free_domain()
SETTINGS = """\
robot: panda
observe: {pos: {topic: /joint_states, field: position}}
watchdog: {enabled: false}
"""
VERBS = {
    "deploy": ["deploy", "no_bundle"],
    "check": ["deploy", "check", "no_bundle"],
    "latency": ["deploy", "latency", "no_recording"],
    "sim-robot": ["sim-robot", "--settings", "deploy/no_settings"],
}
"""Lines that fail as soon as anything starts."""


@pytest.fixture
def words(tmp_path: Path) -> dict[str, list[str]]:
    """Lines that end by themselves."""
    make_bundle(tmp_path / "bundle", load("robots", "panda"), -0.003)
    (tmp_path / "settings.yaml").write_text(SETTINGS)
    bundle, settings = str(tmp_path / "bundle"), str(tmp_path / "settings.yaml")
    over = ["--settings", settings, f"transport.domain={DOMAIN}", "--seconds", "0.5"]
    robot = ["sim-robot", "--task", "reach", "--domain", str(DOMAIN), "--seconds", "0.1"]
    return {
        "deploy": ["deploy", bundle, *over],
        "check": ["deploy", "check", bundle, *over],
        "sim-robot": robot,
    }


def a_folder(path: Path) -> Path:
    return path


def below_a_file(path: Path) -> Path:
    (path / "file").write_text("")
    return path / "file" / "a.json"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("place", [a_folder, below_a_file])
def test_a_file_that_cannot_be_written_is_told_before_anything_starts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    place: Callable[[Path], Path],
):
    path = place(tmp_path)
    assert main([*VERBS[verb], "--json", str(path)]) == 2
    assert f"robo-rl: {path}: could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "status"), [("deploy", 0), ("check", 2), ("sim-robot", 0)])
def test_a_pipe_gets_the_numbers_and_stays_a_pipe(
    tmp_path: Path, words: dict[str, list[str]], verb: str, status: int
):
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert main([*words[verb], "--json", str(pipe)]) == status
    reader.join(timeout=10.0)
    assert json.loads(read[0])
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("verb", "line"), [("deploy", "inactive"), ("check", "no publisher"), ("sim-robot", "episodes")]
)
def test_a_disk_that_fills_up_takes_no_line_away(
    tmp_path: Path,
    words: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    line: str,
):
    monkeypatch.setattr("robo_rl.cli.output.write_file", full)
    assert main([*words[verb], "--json", str(tmp_path / "a.json")]) == 2
    said = capsys.readouterr()
    assert line in said.out
    assert "a.json: could not be written: No space left on device" in said.err


def test_a_full_disk_hides_no_failure_of_the_run(
    tmp_path: Path,
    words: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("robo_rl.cli.output.write_file", full)
    line = [*words["deploy"], "--activate", "--json", str(tmp_path / "a.json")]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "the policy never began" in said


def test_the_watchdog_replaces_no_pipe_and_writes_through_a_link(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert _estate(tmp_path / "pipe", None, 0.0).health == ""
    assert _estate(tmp_path / "link", None, 0.0).health == str(tmp_path / "target")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_recording_that_stopped_is_told_with_what_saves_its_start(
    tmp_path: Path,
    words: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_full: bool,
):
    pytest.importorskip("rosbags.highlevel", reason="pip install 'robo-rl[dds]'")
    if is_full:
        monkeypatch.setattr(DirectSink, "flush", full)
        monkeypatch.setattr(DirectSink, "close", full)
    health = tmp_path / "a.json"
    over = ["--json", str(health), "--record", str(tmp_path / "bags"), "record.min_free_mb=0"]
    assert main([*words["deploy"], *over]) == 0
    told, said = json.loads(health.read_text()), capsys.readouterr().out
    (bag,) = told["recorded"]
    assert (f"recorded: {bag}" in said) is not is_full
    torn = f"{bag}: cut off; `robo-rl data recover {bag}` saves its start"
    assert (torn in said) is is_full
    stopped = "recording stopped: No space left on device"
    assert told["recording_problems"] == ([stopped, torn] if is_full else [])
