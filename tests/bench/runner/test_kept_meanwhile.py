"""A cell that is to be run again waits for no record that was there when this was decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from small_suites import kept

from robo_rl.bench.runner.session import BenchSession
from robo_rl.bench.runner.suite_runner import BenchFolders, SuiteRunner
from robo_rl.bench.suite.suite import CellKey
from robo_rl.train.pipeline.world_digest import world_of

KEY, NEWER = CellKey("near", "sde", 0), CellKey("near", "default", 0)


def test_a_record_of_the_present_world_is_run_again_where_the_newest_is_of_another(here: Path):
    folders = BenchFolders(here / "runs", here / "results")
    runner = SuiteRunner("tiny", [], folders)
    world = world_of(runner.cells[KEY].experiment)
    for key, when, at in ((KEY, "2026-01-01", world), (NEWER, "2026-01-02", {"task": "other"})):
        ended: dict[str, Any] = {"ended": f"{when}T00:00:00+00:00", "world": at}
        found = kept(*key, digest=runner.cells[key].digest, suite="tiny", **ended)
        runner.results.write(found)
    runner = SuiteRunner("tiny", [], folders)
    assert KEY in runner.to_run(redo=True)
    nothing: Any = None
    session = BenchSession(runner.results, runner.kept, nothing, nothing, nothing)
    assert not session.is_kept(runner.cells[KEY])
    again = runner.kept[KEY].model_copy(update={"ended": "2026-01-03T00:00:00+00:00"})
    runner.results.write(again)
    assert session.is_kept(runner.cells[KEY])
