"""Success by task and by variant, over seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.bench.results.cell_record import NumberRecord
from robo_rl.bench.results.parts import parts
from robo_rl.stats.across_runs import rate_interval

EVAL = {"episodes": 100, "seed": 7, "num_envs": 10}


def cell(seed: int = 0, protocol: str = "", **numbers: tuple[float, int]) -> Any:
    found = {
        name.replace("_of_", "/"): NumberRecord.model_validate(
            {"value": value, "n": n, "unit": "1", "protocol": protocol}
        )
        for name, (value, n) in numbers.items()
    }
    stages = {"online": SimpleNamespace(numbers=found)}
    return SimpleNamespace(seed=seed, stages=stages, config={"eval": EVAL})


def test_a_part_has_the_mean_of_its_seeds_with_their_interval():
    (row,) = parts(
        [cell(seed, success_of_lift=(rate, 100)) for seed, rate in enumerate((0.5, 0.9))]
    )
    assert (row["stage"], row["task"], row["variant"]) == ("online", "lift", "")
    assert (row["seeds"], row["episodes"]) == (2, 200)
    assert row["success"] == pytest.approx(0.7)
    assert (row["low"], row["high"]) == tuple(rate_interval([0.5, 0.9], 200))
    (row,) = parts(
        [cell(seed, success_of_lift=(rate, 100)) for seed, rate in enumerate((0.0, 1.0))]
    )
    assert (row["low"], row["high"]) == (0.0, 1.0)
    (row,) = parts([cell(success_of_lift=(0.5, 100))])
    assert (row["success"], row["low"], row["high"]) == (0.5, None, None)


def test_episodes_that_seeds_share_count_once():
    hashes = ("old", "old", "with a newer option")
    cells = [cell(i, text, success_of_lift=(0.9, 100)) for i, text in enumerate(hashes)]
    (row,) = parts(cells)
    assert row["episodes"] == 300
    assert (row["low"], row["high"]) == tuple(rate_interval([0.9] * 3, 100))


def test_a_variant_has_a_row_for_all_tasks_and_one_for_each():
    rows = parts([cell(wrong_of_success=(0.1, 10), wrong_of_success_of_lift=(0.2, 5))])
    assert {(row["variant"], row["task"]) for row in rows} == {("wrong", ""), ("wrong", "lift")}


def test_what_other_tables_have_is_left_out():
    """The plain success, that of another policy, and a number without episodes."""
    others = cell(success=(0.5, 10), success_before=(0.4, 10), success_before_of_lift=(0.4, 10))
    assert not parts([others])
