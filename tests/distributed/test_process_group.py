"""What processes exchange; alone everything is what was handed in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from robo_rl.core.errors import ConfigError
from robo_rl.distributed import process_group as ranks

PROGRAM = Path(__file__).parent / "ranks_course.py"


@pytest.mark.slow
def test_three_processes_exchange_what_they_should():
    done = subprocess.run(
        [sys.executable, PROGRAM],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_alone_nothing_is_copied():
    rows = torch.arange(6)
    assert ranks.all_reduce_sum(rows) is rows
    assert ranks.all_gather_rows(rows) is rows
    assert ranks.local_rows(rows).tolist() == rows.tolist()
    assert ranks.broadcast_int(7) == ranks.all_reduce_min(7) == 7
    with ranks.joined_processes() as (rank, size):
        assert (rank, size) == (0, 1)


@pytest.mark.parametrize(("rank", "size"), [("2", "2"), ("-1", "2"), ("a", "2"), ("0", "")])
def test_an_environment_that_contradicts_itself(monkeypatch, rank: str, size: str):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    with pytest.raises(ConfigError, match="WORLD_SIZE"), ranks.joined_processes():
        pass


def test_processes_that_were_not_told_where_to_meet(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with (
        pytest.raises(ConfigError, match=r"without MASTER_ADDR.*torchrun"),
        ranks.joined_processes(),
    ):
        pass
