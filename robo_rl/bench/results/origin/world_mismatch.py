"""Finds kept cells of other worlds, which cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.suite.suite import CellKey
from robo_rl.train.pipeline.world_digest import describe_changes

_SETTINGS = ("task settings", "env settings")
"""Parts in which methods of a suite may differ by its settings."""


def world_mismatches(kept: Mapping[CellKey, CellRecord]) -> dict[CellKey, str]:
    """Return the cells of another world than the newest cell of their task and settings.

    The values are the differences. Cells without a recorded world are not excluded.
    """
    newest: dict[tuple[str, ...], CellRecord] = {}
    for each in sorted(kept.values(), key=lambda each: each.ended):
        if each.world:
            newest[_place(each)] = each
    found = {
        key: describe_changes(each.world, newest[_place(each)].world)
        for key, each in kept.items()
        if each.world
    }
    return {key: differs for key, differs in found.items() if differs}


def _place(kept: CellRecord) -> tuple[str, ...]:
    return (kept.task, *(kept.world.get(part, "") for part in _SETTINGS))
