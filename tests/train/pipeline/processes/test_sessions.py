"""Who worked on a stage is noted by itself; one process at a run at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT

from robo_rl.config.models import ConfigTree
from robo_rl.config.provenance import versions
from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.core.file_lock import lock_file
from robo_rl.train.pipeline.processes.sessions import FILE, read_sessions, record_session
from robo_rl.train.pipeline.run import run_experiment


def collect(out: Path) -> dict[str, Any]:
    return run_experiment(ConfigTree(EXPERIMENT, {}), [], out, until="collect")


def test_every_process_that_worked_on_a_stage_is_noted(tmp_path: Path):
    place = tmp_path / "tiny" / "00-collect"
    assert read_sessions(place) == ()
    for _ in range(2):  # the second time it is done already
        collect(tmp_path)
        assert read_sessions(place) == (versions(),)
    (place / "report.json").unlink()  # as after a kill
    collect(tmp_path)
    assert read_sessions(place) == (versions(), versions())


def test_a_damaged_list_is_named(tmp_path: Path):
    (tmp_path / FILE).write_text("[3]")
    with pytest.raises(DataError, match=r"starts\.json: cannot be read.*delete it"):
        record_session(tmp_path)


def test_two_are_never_at_one_run(tmp_path: Path):
    collect(tmp_path)
    with (
        lock_file(tmp_path / "tiny" / ".lock"),
        pytest.raises(CheckpointError, match=r"tiny: another process is at this run; wait for it"),
    ):
        collect(tmp_path)
    assert collect(tmp_path)["name"] == "tiny"
