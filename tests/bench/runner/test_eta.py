"""How long cells will take is told by those that are kept, what they share counted once."""

from __future__ import annotations

import pytest
from small_suites import kept

from robo_rl.bench.runner.eta import START_S, Estimate
from robo_rl.bench.suite.suite import Key

OWN, SHARED = 90.0, 30.0  # as small_suites has it


def keys(methods: str, seeds: int, task: str = "near") -> list[Key]:
    return [Key(task, method, seed) for seed in range(seeds) for method in methods]


def test_a_cell_takes_what_the_nearest_of_the_kept_ones_took():
    found = Estimate([kept("near", "a", 0), kept("far", "b", 0)])
    assert found.seconds(Key("near", "a", 7)) == START_S + OWN
    assert found.seconds(Key("far", "a", 7)) == START_S + OWN
    assert Estimate([]).seconds(Key("near", "a", 7)) is None


@pytest.mark.parametrize(
    ("methods", "seeds", "lots"), [("ab", 1, 1), ("ab", 3, 3), ("a", 3, 3), ("ab", 3, 0)]
)
def test_what_is_shared_counts_once_where_it_is_to_be_made(methods: str, seeds: int, lots: int):
    chosen = keys(methods, seeds)
    total = Estimate([kept("near", "a", 0)]).total(
        chosen, {("near", seed) for seed in range(lots)}, jobs=2
    )
    assert total == pytest.approx((len(chosen) * (START_S + OWN) + lots * SHARED) / 2)


def test_nothing_is_told_of_a_suite_of_which_nothing_is_known():
    assert Estimate([]).total(keys("ab", 2), set(), jobs=1) is None
    assert Estimate([]).total([], set(), jobs=1) == 0.0
