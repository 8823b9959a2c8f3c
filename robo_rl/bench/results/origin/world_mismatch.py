"""Finds kept cells of other worlds, which cannot be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.config.differences import effective_settings
from robo_rl.train.pipeline.world_digest import OTHER, World, describe_changes

_SETTINGS = ("task settings", "env settings")
"""Parts that are compared as settings, since their digests also change with each new option."""


def world_mismatches(
    cells: Mapping[CellKey, Cell], kept: Mapping[CellKey, CellRecord]
) -> dict[CellKey, str]:
    """Return the kept cells of another world than the newest cell of their task and settings.

    The values are the differences. Cells without a recorded world are not excluded. Worlds of
    variants do not count, because their number differs between methods.

    Args:
        cells: Cells of the suite, whose settings of task and env can differ between methods.
        kept: Kept cells that have the settings of their cells in ``cells``.
    """
    newest: dict[tuple[str, str], World] = {}
    places = {key: _place(cells[key]) for key in kept}
    for key, each in sorted(kept.items(), key=lambda item: item[1].ended):
        if each.world:
            newest[places[key]] = _world(each)
    found = {
        key: describe_changes(_world(each), newest[places[key]])
        for key, each in kept.items()
        if each.world
    }
    return {key: differs for key, differs in found.items() if differs}


def _place(cell: Cell) -> tuple[str, str]:
    """Return the task of a cell, and its settings of task and env."""
    counted = effective_settings(cell.experiment)
    chosen = counted.model_dump(mode="json", include={"task", "env"})
    return cell.key.task, json.dumps(chosen, sort_keys=True)


def _world(kept: CellRecord) -> World:
    """Return the parts of a cell's world that are compared."""
    own = {part: value for part, value in kept.world.items() if not part.startswith(OTHER)}
    return {part: value for part, value in own.items() if part not in _SETTINGS}
