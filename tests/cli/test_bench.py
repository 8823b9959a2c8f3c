"""What ``robo-rl bench`` lists, refuses and shows without running anything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from small_suites import kept, write_suite

from robo_rl.cli.main import main
from robo_rl.train.bench.plan import load_plan
from robo_rl.train.bench.results import Results
from robo_rl.train.bench.suite import keys

FILTERS = ("--task", "near", "--method", "default,sde", "--seeds", "1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path)
    return tmp_path


def keep(here: Path, *, seconds: float = 60.0, digest: str = "") -> None:
    """As if all cells of seed 0 had been run."""
    plan = load_plan("tiny")
    results = Results(here / "benchmarks" / "results", "tiny")
    for key in keys(plan.suite):
        if key.seed == 0:
            cell = kept(*key, digest=digest or plan.cell(key).digest, suite="tiny")
            stages = {name: each.model_dump() for name, each in cell.stages.items()}
            stages["online"]["seconds"] = seconds
            results.write(cell.model_validate({**cell.model_dump(), "stages": stages}))


def rows(text: str, first: str) -> list[list[str]]:
    return [re.split(r"  +", line) for line in text.splitlines() if line.startswith(first)]


@pytest.mark.parametrize("words", [["bench"], ["bench", "--list"]])
def test_suites_are_listed_with_what_is_kept(here: Path, words: list[str], capsys):
    keep(here)
    assert main(words) == 0
    shown = rows(capsys.readouterr().out, "tiny")
    assert shown == [["tiny", "6 of 12", "Two ways to explore from one clone."]]


def test_a_dry_run_shows_the_cells_and_how_long_they_take(here: Path, capsys):
    assert main(["bench", "tiny", "--dry-run"]) == 0
    assert "12 of 12 to run; nobody knows how long" in capsys.readouterr().out
    keep(here)
    assert main(["bench", "tiny", "--dry-run", "--jobs", "2"]) == 0
    out = capsys.readouterr().out
    assert rows(out, "near  default") == [
        ["near", "default", "0", "kept"],
        ["near", "default", "1", "to run", "95 s"],  # 60 and 30 of its stages, 5 to start
    ]
    assert out.splitlines()[-1] == "6 of 12 to run; 5 min"  # six, two at a time
    assert not (here / "runs").exists()


def test_a_part_of_the_suite(here: Path, capsys):
    del here
    assert main(["bench", "tiny", "--dry-run", *FILTERS]) == 0
    out = capsys.readouterr().out
    assert [row[:3] for row in rows(out, "near")] == [
        ["near", "default", "1"],
        ["near", "sde", "1"],
    ]
    assert "2 of 2 to run" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tinny"], "no suite 'tinny'; did you mean 'tiny'"),
        (["tiny", "--task", "nea"], "the suite has no task 'nea'; did you mean 'near'"),
        (["tiny", "--method", "ppo"], "the suite has no method 'ppo'"),
        (["tiny", "--seeds", "7"], "the suite has no seed '7'"),
        (["tiny", "--seeds", "one"], "--seeds: not a list of seeds; expected 0,1, found one"),
        (["tiny", "stages.online.updatse=3"], "did you mean 'updates'"),
        (["tiny", "suite.jobs=0"], "suite.jobs: expected greater than or equal to 1"),
        (["tiny", "no-override"], "expected dotted.key=value"),
        (["tiny", "--results", "file"], "file/tiny: cannot be written"),
        (["tiny", "--out", "file"], "file: cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_run(here: Path, words: list[str], says: str, capsys):
    (here / "file").write_text("")
    assert main(["bench", *words]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("robo-rl: ") == 1
    assert "Traceback" not in said
    assert not (here / "runs").exists()


def test_a_summary_is_of_what_is_kept_alone(here: Path, capsys):
    keep(here)
    assert main(["bench", "tiny", "--summary", "--json", "all.json", *FILTERS[:4]]) == 0
    out = capsys.readouterr().out
    assert rows(out, "near  sde")[0][:6] == ["near", "sde", "1", "50.0 %", "90.0 %", "–"]
    assert "missing, 2: near default 1; near sde 1" in out
    numbers = json.loads((here / "all.json").read_text())
    assert numbers["default"]["success"] == 0.9
    assert numbers["default"]["one_step"] == 0.8
    assert numbers["tasks"]["near"]["sde"]["seeds"] == 1
    assert not (here / "runs").exists()


def test_what_was_kept_under_other_settings_is_left_out_and_not_run_again(here: Path, capsys):
    keep(here, digest="other")
    assert main(["bench", "tiny", "--summary"]) == 0
    assert "left out, since kept under other settings (--redo" in capsys.readouterr().out
    assert main(["bench", "tiny", "--dry-run", "--seeds", "0"]) == 0
    assert "0 of 6 to run" in capsys.readouterr().out
    assert main(["bench", "tiny", "--dry-run", "--seeds", "0", "--redo"]) == 0
    assert "6 of 6 to run" in capsys.readouterr().out
    assert main(["bench", "tiny", "--seeds", "0"]) == 0
    assert not (here / "runs").exists()


def test_a_damaged_result_is_one_line(here: Path, capsys):
    keep(here)
    path = here / "benchmarks" / "results" / "tiny" / "far" / "sde" / "0.json"
    path.write_text(path.read_text()[:100])
    assert main(["bench", "tiny", "--summary"]) == 2
    assert "far/sde/0.json: cannot be read" in capsys.readouterr().err
