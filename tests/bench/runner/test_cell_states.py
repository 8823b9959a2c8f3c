"""Which cells run: those that are missing, and with ``redo`` those that a run would change.

What they read is there before the first one begins.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from small_suites import SUITE, kept, write_suite

from robo_rl.bench.runner.suite_runner import BenchFolders, CellState, SuiteRunner
from robo_rl.bench.suite.suite import CellKey
from robo_rl.core.errors import ConfigError

KEY, CURRENT = CellKey("near", "sde", 0), CellKey("near", "default", 0)


def test_a_cell_of_former_defaults_stays_in_the_tables_until_it_is_redone(here: Path):
    folders = BenchFolders(here / "runs", here / "results")
    cells = SuiteRunner("tiny", [], folders).cells
    then = copy.deepcopy(cells[KEY].settings)
    del then["policy"]["train_times"]  # newer than the record, with another default
    runner = SuiteRunner("tiny", [], folders)
    runner.results.write(kept(*KEY, digest="0ld", suite="tiny", config=then))
    runner.results.write(kept(*CURRENT, digest=cells[CURRENT].digest, suite="tiny"))
    runner = SuiteRunner("tiny", [], folders)
    states = runner.states()
    assert states[KEY] is CellState.FORMER
    assert states[CURRENT] is CellState.KEPT
    assert KEY in runner.valid_records()
    assert KEY not in runner.to_run(redo=False)
    assert KEY in runner.to_run(redo=True)
    assert CURRENT not in runner.to_run(redo=True)
    (task,) = [each for each in runner.run_tasks([KEY]) if each.provides is None]
    assert task.cell is not None
    redone = kept(*KEY, digest=task.cell.digest, suite="tiny", config=cells[KEY].settings)
    runner.results.write(redone)
    assert SuiteRunner("tiny", [], folders).states()[KEY] is CellState.KEPT


@pytest.mark.parametrize("redo", [False, True])
def test_a_missing_file_is_named_with_its_cell_before_a_cell_runs(here: Path, redo: bool):
    """The cell is missing, or kept with former defaults and redone."""
    folders, base = BenchFolders(here / "runs", here / "results"), SUITE["experiment"]
    bc = {**base["stages"]["bc"], "pretrained": str(here / "nowhere")}
    stages = {**base["stages"], "bc": bc}
    write_suite(here, experiment={**base, "stages": stages}, seeds=[0], methods={"default": {}})
    runner = SuiteRunner("tiny", [], folders)
    if redo:
        for key, cell in runner.cells.items():
            then = copy.deepcopy(cell.settings)
            del then["policy"]["train_times"]
            runner.results.write(kept(*key, digest="0ld", suite="tiny", config=then))
        runner = SuiteRunner("tiny", [], folders)
        assert set(runner.states().values()) == {CellState.FORMER}
    with pytest.raises(ConfigError, match=r"cell 'near default 0': stages\.bc: .*nowhere"):
        runner.run(1, redo=redo)
    assert not (here / "runs").exists()
