"""What ``robo-rl bench`` lists, refuses and shows without running anything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from small_suites import kept, write_suite

from robo_rl.bench.results.store import Results
from robo_rl.bench.runner.shared_stages import find_shared_stages
from robo_rl.bench.suite.suite import CellKey, cell_keys
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.cli.main import main
from robo_rl.core.errors import ConfigError
from robo_rl.train.pipeline.run_directory import stage_folder
from robo_rl.train.stages.online_rl import OnlineRl

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
    for key in cell_keys(plan.suite):
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
    assert shown == [["tiny", "6 of 12", "0", "0", "Two ways to explore from one clone."]]


def test_stale_cells_and_further_seeds_are_counted_apart(here: Path, capsys):
    keep(here)
    results = Results(here / "benchmarks" / "results", "tiny")
    plan = load_plan("tiny")
    for key in (CellKey("near", "sde", 5), CellKey("far", "sde", 5)):
        results.write(kept(*key, digest=plan.cell(key).digest, suite="tiny"))
    results.write(kept("near", "default", 1, digest="other", suite="tiny"))
    assert main(["bench", "--list"]) == 0
    assert rows(capsys.readouterr().out, "tiny")[0][1:4] == ["6 of 12", "2", "1"]


def test_a_suite_that_cannot_be_read_is_listed_beside_the_others(here: Path, capsys):
    (here / "configs" / "suite" / "broken.yaml").write_text("base: [nosuch]\nsuite: {}\n")
    keep(here)
    assert main(["bench", "--list"]) == 0
    out = capsys.readouterr().out
    assert rows(out, "tiny")[0][1].endswith(" of 12")
    (row,) = rows(out, "broken")
    assert row[1:4] == ["? of ?", "?", "?"]
    assert "nosuch" in row[4]


def test_a_page_of_nothing_is_refused_and_the_one_that_is_there_stays(here: Path, capsys):
    page = here / "index.md"
    page.write_text("as it was")
    (here / "empty").mkdir()
    for folder, says in {"typo": "no such folder", "empty": "holds no kept cell"}.items():
        assert main(["bench", "--page", str(page), "--results", folder]) == 2
        assert says in capsys.readouterr().err
    assert page.read_text() == "as it was"


def test_a_suite_whose_results_are_damaged_is_listed_with_its_problem(here: Path, capsys):
    keep(here)
    (here / "benchmarks" / "results" / "tiny" / "far" / "sde" / "0.json").write_text("{")
    assert main(["bench", "--list"]) == 0
    (row,) = rows(capsys.readouterr().out, "tiny")
    assert row[1:4] == ["? of 12", "?", "?"]
    assert "0.json" in row[4]


def test_a_dry_run_shows_the_cells_and_how_long_they_take(here: Path, capsys):
    assert main(["bench", "tiny", "--dry-run"]) == 0
    assert "12 of 12 to run; unknown time" in capsys.readouterr().out
    keep(here)
    assert main(["bench", "tiny", "--dry-run", "--jobs", "2"]) == 0
    out = capsys.readouterr().out
    assert rows(out, "near  default") == [
        ["near", "default", "0", "kept"],
        ["near", "default", "1", "to run", "95 s"],  # 60 and 30 of its stages, 5 to start
    ]
    assert out.splitlines()[-1] == "6 of 12 to run; 5 min"  # six, two at a time
    assert not (here / "runs").exists()


def test_a_dry_run_says_the_same_as_json(here: Path, capsys):
    keep(here)
    assert main(["bench", "tiny", "--dry-run", "--json", "states.json"]) == 0
    found = json.loads((here / "states.json").read_text())
    assert (found["to_run"], found["seconds"]) == (6, 570.0 + 2 * 30.0)  # shared by task and seed
    assert found["cells"][0] == {
        "task": "near", "method": "default", "seed": 0, "state": "kept", "seconds": None
    }  # fmt: skip
    assert found["cells"][6]["state"] == "to run"
    del capsys


@pytest.mark.slow
def test_a_dry_run_of_all_suites_says_the_same_of_each(here: Path, capsys):
    keep(here)
    for name in ("tiny", "all"):
        assert main(["bench", name, "--dry-run", "--json", f"{name}.json"]) == 0
    alone, among = (json.loads((here / f"{name}.json").read_text()) for name in ("tiny", "all"))
    assert among["tiny"] == alone
    del capsys


def test_what_cells_share_takes_no_time_where_it_is_there(here: Path, capsys):
    keep(here)
    plan = load_plan("tiny")
    for key, share in find_shared_stages(plan.cells().values(), plan.suite.shared).items():
        for index, label in enumerate(share.labels if key.task == "near" else ()):
            stage = here / "runs/bench/tiny/shared" / share.name / stage_folder(index, label)
            stage.mkdir(parents=True, exist_ok=True)
            (stage / "report.json").write_text("{}")
    assert main(["bench", "tiny", "--dry-run", "--json", "states.json"]) == 0
    assert json.loads((here / "states.json").read_text())["seconds"] == 570.0 + 30.0  # far's
    del capsys


def test_only_what_is_to_be_run_is_asked_whether_it_can(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    def refuse(*_: object) -> None:
        raise ConfigError("cannot work")

    write_suite(here, seeds=[0])
    keep(here)
    monkeypatch.setattr(OnlineRl, "check_policy", refuse)
    for words in (["tiny", "--summary"], ["tiny", "--dry-run"], ["--list"]):
        assert main(["bench", *words]) == 0
    keep(here, digest="another")
    assert main(["bench", "tiny", "--dry-run"]) == 0
    assert main(["bench", "tiny", "--dry-run", "--redo"]) == 2
    assert "stages.online: cannot work" in capsys.readouterr().err


def test_of_all_suites_there_is_a_total(here: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    write_suite(here, "second", seeds=[0])
    monkeypatch.setattr("robo_rl.bench.suite.suite_file.suite_names", lambda: ["tiny", "second"])
    keep(here)
    assert main(["bench", "all", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "all suites: 12 of 18 to run; 10 min, and unknown time for second: none is kept"
    )


def test_a_single_cell_is_shown_as_it_will_be_run(here: Path, capsys):
    words = ["bench", "tiny", "--dry-run", "--task", "far", "--method", "sde", "--seeds", "1"]
    assert main([*words, "stages.online.updates=9"]) == 0
    said = capsys.readouterr()
    assert "would be refused: " in said.err
    shown = yaml.safe_load(said.out.split("to run; ")[1].partition("\n\n")[2])
    cell = load_plan("tiny", ["stages.online.updates=9"]).cell(CellKey("far", "sde", 1))
    assert shown == cell.experiment.model_dump(mode="json")
    assert shown["stages"]["online"]["updates"] == 9
    assert not (here / "runs").exists()


def test_further_seeds_are_shown_counted_and_summed_up(here: Path, capsys):
    keep(here)
    assert main(["bench", "tiny", "--dry-run", "--seeds", "0,4"]) == 0
    assert "6 of 12 to run" in capsys.readouterr().out
    plan, results = load_plan("tiny"), Results(here / "benchmarks" / "results", "tiny")
    for key in (key for key in cell_keys(plan.suite, [4]) if key.task == "near"):
        results.write(kept(*key, 0.7, digest=plan.cell(key).digest, suite="tiny"))
    assert main(["bench", "tiny", "--summary", "--json", "all.json"]) == 0
    assert rows(capsys.readouterr().out, "near  sde")[0][2] == "2"
    numbers = json.loads((here / "all.json").read_text())
    assert numbers["tasks"]["near"]["sde"]["success"] == pytest.approx(0.8)
    assert numbers["sde"]["success"] == 0.9  # the seed that both tasks have
    assert len(numbers["missing"]) == 6  # seed 1; nobody asked for far default 4
    assert main(["bench", "tiny", "--summary", "--seeds", "0"]) == 0
    assert rows(capsys.readouterr().out, "near  sde")[0][2] == "1"


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
        (["tiny", "--seeds=-1"], "--seeds: no seed; expected 0 or more, found -1"),
        (["tiny", "suite.report.stage=onlin"], "no stage 'onlin' in near default 0; did you mean"),
        (["tiny", "stages.online.updates=2"], "found stages.online.updates=2; name another folder"),
        (["tiny", "suite.methods.sde={}", "--results", "./benchmarks/results"], "name another fo"),
        (
            ["tiny", "stages.bc.steps=2", "--summary"],
            "found stages.bc.steps=2; name another folder",
        ),
        (["tiny", "--summary", "--results", "elsewhere"], "--results: no such folder"),
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
    assert "missing, 2: near: default, sde (seed 1)" in out
    numbers = json.loads((here / "all.json").read_text())
    assert numbers["default"]["success"] == 0.9
    assert numbers["default"]["one_step"] == 0.8
    assert numbers["tasks"]["near"]["sde"]["seeds"] == 1
    assert not (here / "runs").exists()


@pytest.mark.parametrize("mode", ["--summary", "--dry-run"])
def test_what_needs_a_suite_says_so(mode: str, here: Path, capsys):
    assert main(["bench", mode, "--json", "all.json"]) == 2
    assert "needs a suite; name a suite, or all" in capsys.readouterr().err
    assert not (here / "all.json").exists()


def test_what_was_kept_under_other_settings_is_left_out_and_not_run_again(here: Path, capsys):
    keep(here, digest="other")
    assert main(["bench", "tiny", "--summary"]) == 0
    assert "other settings, not in the tables (--redo" in capsys.readouterr().out
    assert main(["bench", "tiny", "--dry-run", "--seeds", "0"]) == 0
    assert "0 of 6 to run" in capsys.readouterr().out
    assert main(["bench", "tiny", "--dry-run", "--seeds", "0", "--redo"]) == 0
    assert "6 of 6 to run" in capsys.readouterr().out
    assert main(["bench", "tiny", "--seeds", "0"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tiny: cells left out, since of other settings or another world: 6; ")
    assert "robo-rl bench tiny --redo" in line
    assert not (here / "runs").exists()


def test_a_damaged_result_is_one_line(here: Path, capsys):
    keep(here)
    path = here / "benchmarks" / "results" / "tiny" / "far" / "sde" / "0.json"
    path.write_text(path.read_text()[:100])
    assert main(["bench", "tiny", "--summary"]) == 2
    assert "far/sde/0.json: cannot be read" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tiny", "--dry-run", "--summary"], "--summary and --dry-run: do not go together"),
        (["--page", "p.md", "--list"], "--page and --list: do not go together"),
        (["tiny", "--page", "p.md"], "bench --page: does not go with it; found SUITE; leave it"),
        (["--list", "--json", "all.json"], "bench --list: does not go with it; found --json"),
        (["--task", "near"], "bench --list: does not go with it; found --task; name a suite"),
        (["tiny", "--summary", "--redo"], "bench --summary: does not go with it; found --redo"),
        (["tiny", "--summary", "--jobs", "2"], "--summary: does not go with it; found --jobs"),
    ],
)
def test_what_cannot_be_done_together_is_refused(words: list[str], says: str, capsys):
    assert main(["bench", *words]) == 2
    assert says in capsys.readouterr().err
