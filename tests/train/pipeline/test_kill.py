"""kill -9 at random moments of a run, and the same command again: the same numbers in the end."""

from __future__ import annotations

import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from small_runs import Runner, outcome


def landmarks(directory: Path) -> set[str]:
    """What a run has saved so far."""
    patterns = ("data.zarr", "ckpt/[0-9]*", "policy", "report.json")
    return {str(path) for each in patterns for path in directory.glob(f"0*/{each}")}


def wait(directory: Path, chance: random.Random) -> None:
    """Until a run has saved up to two more things, and a little longer."""
    before, wanted = landmarks(directory), chance.randrange(3)
    last, deadline = directory / "03-distill" / "report.json", time.monotonic() + 60
    while len(landmarks(directory) - before) < wanted and not last.exists():
        assert time.monotonic() < deadline
        time.sleep(0.002)
    time.sleep(chance.uniform(0.0, 0.1))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_a_killed_run_ends_as_an_undisturbed_one(
    runner: Runner, road: Any, tmp_path: Path, kills: int
):
    whole = outcome(road.directory)
    assert len(whole) == 13
    chance, out = random.Random(kills), tmp_path
    while kills:
        out = out / "next"
        words = ("run", road.config, "--out", out)
        status = -9
        while kills and status == -9:
            moment = partial(wait, out / "tiny", chance)
            status, output = runner.run(*words, kill_when=moment)
            assert status in (0, -9), output
            kills -= status == -9
        status, output = runner.run(*words)
        assert status == 0, output
        assert outcome(out / "tiny") == whole
