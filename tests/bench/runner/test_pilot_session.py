"""A suite with pilots: run, killed and gone on with, chosen from, and only then reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_suites import SUITE, kept, write_suite

from robo_rl.bench.results.store import Results
from robo_rl.bench.runner.suite_runner import BenchFolders, SuiteRunner
from robo_rl.bench.suite.suite import cell_keys
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.cli.main import main

SETTINGS = {
    "default": [{}, {"gamma": 0.9}],
    "sde": [{}, {"stages": {"online": {"algo": {"lr": 3e-4}}}}],
}
SMALL: dict[str, Any] = {
    "tasks": {"near": {}},
    "methods": {name: SUITE["methods"][name] for name in SETTINGS},
    "seeds": [0],
    "pilots": {
        "tasks": {"middle": {"task": {"success_m": 0.2}}},
        "seeds": [100],
        "settings": SETTINGS,
    },
}


@pytest.fixture
def piloted(here: Path) -> Path:
    write_suite(here, **SMALL)
    return here


def keep_pilots(here: Path, scores: dict[str, float]) -> None:
    pilots = load_plan("tiny").pilot_plan()
    results = Results(here / "benchmarks" / "results", "tiny/pilots")
    for key in cell_keys(pilots.suite):
        if key.method in scores:
            digest = pilots.cell(key).digest
            results.write(kept(*key, scores[key.method], digest=digest, suite="tiny/pilots"))


def chosen(here: Path) -> dict[str, int]:
    path = here / "benchmarks" / "results" / "tiny" / "pilots" / "chosen.json"
    methods = json.loads(path.read_text())["methods"] if path.exists() else {}
    return {method: each["chosen"] for method, each in methods.items()}


def test_cells_are_not_run_before_the_pilots_have_chosen(piloted: Path, capsys):
    assert main(["bench", "tiny"]) == 2
    said = capsys.readouterr().err
    assert "found none of default, sde" in said
    assert "`robo-rl bench tiny --pilots` makes it" in said
    assert not (piloted / "runs").exists()
    assert main(["bench", "tiny", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "would be refused: " in said.err
    assert "2 of 2 to run" in said.out
    assert main(["bench", "tiny", "--pilots", "--dry-run", "--method", "sde"]) == 0
    said = capsys.readouterr()
    assert "2 of 2 to run" in said.out
    assert "sde@1" in said.out
    assert not said.err


def test_a_choice_is_made_from_what_is_kept_and_then_used(piloted: Path, capsys):
    keep_pilots(piloted, {"default@0": 0.5, "default@1": 0.6})
    assert main(["bench", "tiny", "--pilots", "--method", "default"]) == 0
    assert chosen(piloted) == {"default": 1}
    keep_pilots(piloted, {"sde@0": 0.5, "sde@1": 0.5})
    assert main(["bench", "tiny", "--pilots"]) == 0
    assert chosen(piloted) == {"default": 1, "sde": 0}
    capsys.readouterr()
    assert main(["bench", "tiny", "--dry-run", "--method", "default"]) == 0
    said = capsys.readouterr()
    assert "gamma: 0.9\n" in said.out
    assert not said.err
    assert main(["bench", "tiny", "--summary"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "gamma 0.9" in line]
    assert len(rows) == 1
    assert rows[0].rstrip().endswith("yes")
    assert "60.0 %" in rows[0]


@pytest.mark.parametrize("damage", ["{", '{"methods": 3}'])
def test_a_damaged_choice_is_made_again_by_the_command_that_its_error_names(
    piloted: Path, damage: str, capsys
):
    keep_pilots(piloted, {"default@0": 0.5, "default@1": 0.6, "sde@0": 0.5, "sde@1": 0.5})
    assert main(["bench", "tiny", "--pilots"]) == 0
    made = chosen(piloted)
    (piloted / "benchmarks" / "results" / "tiny" / "pilots" / "chosen.json").write_text(damage)
    capsys.readouterr()
    assert main(["bench", "tiny", "--summary"]) == 2
    assert "`robo-rl bench tiny --pilots` writes it" in capsys.readouterr().err
    assert main(["bench", "tiny", "--pilots"]) == 0
    assert chosen(piloted) == made


def test_the_table_of_the_pilots_has_no_revision_of_the_cells(piloted: Path, capsys):
    keep_pilots(piloted, {"default@0": 0.5, "default@1": 0.6, "sde@0": 0.5, "sde@1": 0.5})
    assert main(["bench", "tiny", "--pilots"]) == 0
    results = BenchFolders(piloted / "runs", piloted / "benchmarks" / "results")
    runner = SuiteRunner("tiny", [], results)
    for key, cell in runner.cells.items():
        made = {"robo-rl": f"0.1.0+g012345{len(key.method)}"}
        pilot = cell.pilot and cell.pilot.model_dump()
        found = kept(*key, digest=cell.digest, suite="tiny", versions=made, pilot=pilot)
        runner.results.write(found)
    runner.kept = runner.results.read()
    headers = {table.title: table.header for table in runner.tables(runner.summary())}
    assert "revision" in headers["Every task"]
    assert "revision" not in headers["Pilots: settings tried on other tasks or seeds"]


def test_pilots_have_the_suites_seeds(piloted: Path, capsys):
    del piloted
    assert main(["bench", "tiny", "--pilots", "--seeds", "3"]) == 2
    assert "bench --pilots: does not go with it; found --seeds" in capsys.readouterr().err
    write_suite(Path.cwd())
    assert main(["bench", "tiny", "--pilots"]) == 2
    assert "suite tiny: has no pilots" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_pilots_run_choose_and_the_cells_follow(piloted: Path, capsys):
    """One pilot is missing after the first session; the second one runs that pilot alone."""
    results = piloted / "benchmarks" / "results" / "tiny"
    assert main(["bench", "tiny", "--pilots"]) == 0
    first = json.loads((results / "pilots" / "chosen.json").read_text())
    (results / "pilots" / "middle" / "sde@1" / "100.json").unlink()
    (results / "pilots" / "chosen.json").unlink()
    capsys.readouterr()
    assert main(["bench", "tiny", "--pilots"]) == 0
    assert capsys.readouterr().err.count(": begun") == 1
    assert json.loads((results / "pilots" / "chosen.json").read_text()) == first
    assert main(["bench", "tiny"]) == 0
    for method, settings in SETTINGS.items():
        cell = json.loads((results / "near" / method / "0.json").read_text())
        pick = first["methods"][method]["chosen"]
        trial = first["methods"][method]["trials"][pick]
        name = {"pilot": f"{method}@{pick}", "of": 2, "digest": trial["digest"]}
        assert cell["pilot"] == name
        assert trial["overrides"] == settings[pick]
