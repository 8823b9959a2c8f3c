"""Which cells run: those that are missing, and with ``redo`` those that a run would change."""

from __future__ import annotations

import copy
from pathlib import Path

from small_suites import kept

from robo_rl.bench.runner.suite_runner import BenchFolders, CellState, SuiteRunner
from robo_rl.bench.suite.suite import CellKey

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
    assert task.experiment.name == cells[KEY].experiment.name
