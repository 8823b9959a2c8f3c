"""Success by task and by variant, of all seeds together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.bench.results.cell_record import NumberRecord
from robo_rl.bench.results.parts import parts
from robo_rl.stats.intervals import wilson


def cell(**numbers: tuple[float, int]) -> Any:
    found = {
        name.replace("_of_", "/"): NumberRecord(value=value, n=n, unit="1")
        for name, (value, n) in numbers.items()
    }
    return SimpleNamespace(stages={"online": SimpleNamespace(numbers=found)})


def test_episodes_of_all_seeds_count_together():
    rows = parts([cell(success_of_lift=(0.5, 100)), cell(success_of_lift=(0.9, 300))])
    (row,) = rows
    assert (row["stage"], row["task"], row["variant"]) == ("online", "lift", "")
    assert (row["seeds"], row["episodes"]) == (2, 400)
    assert row["success"] == pytest.approx((50 + 270) / 400)
    assert (row["low"], row["high"]) == tuple(wilson(320, 400))[:2]


def test_a_variant_has_a_row_for_all_tasks_and_one_for_each():
    rows = parts([cell(wrong_of_success=(0.1, 10), wrong_of_success_of_lift=(0.2, 5))])
    assert {(row["variant"], row["task"]) for row in rows} == {("wrong", ""), ("wrong", "lift")}


def test_what_other_tables_have_is_left_out():
    """The plain success, that of another policy, and a number without episodes."""
    others = cell(success=(0.5, 10), success_before=(0.4, 10), success_before_of_lift=(0.4, 10))
    assert not parts([others])
