"""Cells of a suite are compared in one world: that of the newest."""

from __future__ import annotations

from typing import Any

from small_suites import kept

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.origin.world_mismatch import world_mismatches
from robo_rl.bench.suite.suite import CellKey

WORLD = {"robot": "a", "scene": "b", "task settings": "c", "env settings": "d"}


def cells(*worlds: dict[str, str], **changes: Any) -> dict[CellKey, CellRecord]:
    made = [
        kept("near", "default", seed, world=world, ended=f"2026-01-0{seed + 1}", **changes)
        for seed, world in enumerate(worlds)
    ]
    return {each.key: each for each in made}


def test_cells_of_another_world_are_named_with_what_differs():
    found = world_mismatches(cells(WORLD, {**WORLD, "robot": "z", "scene": "y"}, WORLD))
    assert found == {CellKey("near", "default", 1): "robot: z → a"}


def test_the_newest_world_counts():
    moved = {**WORLD, "scene": "z"}
    assert [key.seed for key in world_mismatches(cells(WORLD, WORLD, moved))] == [0, 1]


def test_other_settings_are_the_suites_own_and_no_other_world():
    other = {**WORLD, "task settings": "x", "scene": "y"}
    assert world_mismatches(cells(WORLD, other, WORLD)) == {}


def test_old_cells_whose_world_was_not_recorded_are_compared_as_before():
    assert world_mismatches(cells({}, {}, {})) == {}
    assert world_mismatches(cells({}, WORLD, {})) == {}
