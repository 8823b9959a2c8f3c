"""Counts of faults are resumed, and counting anew loses none of them before it is done."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from robo_rl.core.errors import DataError


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return import_module("_fault_table")


def row(table: ModuleType, *, violations: int = 0, fails_at: int | None = None) -> Any:
    def run(first: int, number: int) -> Any:
        if first == fails_at:
            raise KeyboardInterrupt
        return table.TrialCounts(number, violations, {})

    return table.FaultRow("50 % dropped", "all is well", 10, 2, run)


def test_an_interrupted_count_goes_on_where_it_was(table: ModuleType, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        table.filled(row(table, violations=1, fails_at=4), 10, tmp_path)
    found = table.filled(row(table), 10, tmp_path)
    assert (found.trials, found.violations) == (10, 2)


def test_the_kept_counts_stay_until_those_made_anew_are_as_many(table: ModuleType, tmp_path: Path):
    table.filled(row(table, violations=1), 10, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        table.filled(row(table, fails_at=4), 10, tmp_path, redo=True)
    assert table.filled(row(table), 10, tmp_path).violations == 5
    assert table.filled(row(table), 10, tmp_path, redo=True).violations == 0
    assert table.filled(row(table), 10, tmp_path).violations == 0
    assert [path.name for path in tmp_path.iterdir()] == ["50_percent_dropped.json"]


@pytest.mark.parametrize("damage", ["{", "{}", '{"trials": 3}'])
def test_damaged_counts_are_named(table: ModuleType, tmp_path: Path, damage: str):
    (tmp_path / "50_percent_dropped.json").write_text(damage)
    with pytest.raises(DataError, match=r"50_percent_dropped\.json.*delete it"):
        table.filled(row(table), 10, tmp_path)
