"""Time adds up over sittings, killed ones included."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from robo_rl.train.pipeline.stopwatch import Stopwatch


def test_sittings_add_up(tmp_path: Path):
    for _ in range(2):
        with Stopwatch(tmp_path / "seconds") as watch:
            time.sleep(0.1)
    assert 0.2 <= watch.seconds < 1.0
    assert float((tmp_path / "seconds").read_text()) == pytest.approx(watch.seconds, abs=0.1)


def test_a_killed_sitting_counts_but_for_its_end(tmp_path: Path):
    path = tmp_path / "seconds"
    if not (pid := os.fork()):
        with Stopwatch(path, every_s=0.02):
            time.sleep(60)
    while not path.exists() or float(path.read_text()) < 0.1:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert Stopwatch(path).seconds >= 0.1


def test_a_failed_sitting_counts(tmp_path: Path):
    def fail() -> None:
        time.sleep(0.05)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"), Stopwatch(tmp_path / "seconds"):
        fail()
    assert Stopwatch(tmp_path / "seconds").seconds >= 0.05


@pytest.mark.parametrize("damage", ["", "x", "\x00"])
def test_a_damaged_file_counts_as_nothing(tmp_path: Path, damage: str):
    (tmp_path / "seconds").write_text(damage)
    assert Stopwatch(tmp_path / "seconds").seconds < 1.0


def test_a_full_disk_does_not_stop_the_stage(tmp_path: Path):
    with Stopwatch(tmp_path / "gone" / "seconds", every_s=0.01) as watch:
        time.sleep(0.05)
    assert watch.seconds >= 0.05
