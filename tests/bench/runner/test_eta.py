"""How long cells will take is told by those that are kept, what they share counted once."""

from __future__ import annotations

import pytest
from small_suites import kept

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.runner.eta import START_S, EtaEstimator
from robo_rl.bench.suite.suite import CellKey

OWN, SHARED = 90.0, 30.0  # as small_suites has it


def keys(methods: str, seeds: int, task: str = "near") -> list[CellKey]:
    return [CellKey(task, method, seed) for seed in range(seeds) for method in methods]


def lasting(task: str, method: str, seconds: float) -> CellRecord:
    """A cell whose own stages take as long."""
    cell = kept(task, method, 0)
    online = cell.stages["online"]
    rest = OWN - online.seconds
    changed = online.model_copy(update={"seconds": seconds - rest})
    return cell.model_copy(update={"stages": {**cell.stages, "online": changed}})


@pytest.mark.parametrize(
    ("task", "method", "seconds"),
    [
        ("near", "a", 100.0),
        ("far", "a", 200.0),
        ("far", "b", 1000.0),
        ("new", "a", 150.0),  # the method's median
        ("new", "c", 200.0),  # that of all
    ],
)
def test_a_cell_takes_what_the_nearest_of_the_kept_ones_took(
    task: str, method: str, seconds: float
):
    known = [lasting("near", "a", 100.0), lasting("far", "a", 200.0), lasting("far", "b", 1000.0)]
    found = EtaEstimator(known).seconds(CellKey(task, method, 7))
    assert found == pytest.approx(START_S + seconds)


def test_without_a_kept_cell_no_time_is_told():
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
