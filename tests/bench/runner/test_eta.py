"""How long cells will take is told by those that are kept, what they share counted once."""

from __future__ import annotations

import pytest
from small_suites import kept

from robo_rl.bench.runner.eta import START_S, EtaEstimator
from robo_rl.bench.suite.suite import CellKey

OWN, SHARED = 90.0, 30.0  # as small_suites has it


def keys(methods: str, seeds: int, task: str = "near") -> list[CellKey]:
    return [CellKey(task, method, seed) for seed in range(seeds) for method in methods]


def test_a_cell_takes_what_the_nearest_of_the_kept_ones_took():
    found = EtaEstimator([kept("near", "a", 0), kept("far", "b", 0)])
    assert found.seconds(CellKey("near", "a", 7)) == START_S + OWN
    assert found.seconds(CellKey("far", "a", 7)) == START_S + OWN
    assert EtaEstimator([]).seconds(CellKey("near", "a", 7)) is None


@pytest.mark.parametrize(
    ("methods", "seeds", "lots"), [("ab", 1, 1), ("ab", 3, 3), ("a", 3, 3), ("ab", 3, 0)]
)
def test_what_is_shared_counts_once_where_it_is_to_be_made(methods: str, seeds: int, lots: int):
    chosen = keys(methods, seeds)
    total = EtaEstimator([kept("near", "a", 0)]).total(
        chosen, {("near", seed) for seed in range(lots)}, jobs=2
    )
    assert total == pytest.approx((len(chosen) * (START_S + OWN) + lots * SHARED) / 2)


def test_fewer_cells_than_jobs_take_as_long_as_they_are():
    total = EtaEstimator([kept("near", "a", 0)]).total(keys("a", 1), set(), jobs=4)
    assert total == pytest.approx(START_S + OWN)


def test_nothing_is_told_of_a_suite_of_which_nothing_is_known():
    assert EtaEstimator([]).total(keys("ab", 2), set(), jobs=1) is None
    assert EtaEstimator([]).total([], set(), jobs=1) == 0.0


def test_stages_that_an_unknown_task_shares_take_what_those_of_the_others_take():
    total = EtaEstimator([kept("near", "a", 0)]).total(keys("a", 1, "far"), {("far", 0)}, jobs=1)
    assert total == pytest.approx(START_S + OWN + SHARED)
