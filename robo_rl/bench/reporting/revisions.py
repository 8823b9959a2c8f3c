"""Revisions of robo-rl that made the cells behind a row of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from robo_rl.bench.suite.formatting import NOTHING

CellName = tuple[str, str, str]
"""Task, method and seed of a cell."""

_KEYS = ("task", "method", "seed")
_COMMIT = re.compile(r"\+g([0-9a-f]{7})")


def revisions_by_cell(summary: Mapping[str, Any]) -> dict[CellName, list[str]]:
    """Return the revisions of every cell of a summary, from its provenance."""
    found: dict[CellName, list[str]] = {}
    for version, cells in summary["provenance"]["commits"].items():
        for cell in cells:
            task, method, seed = cell.split()
            found.setdefault((task, method, seed), []).append(_short(version))
    return found


def row_revisions(
    header: Sequence[str], row: Sequence[str], groups: Mapping[CellName, Sequence[str]]
) -> str:
    """Return the revisions of the cells of a row.

    Args:
        header: Column names; the columns ``task``, ``method`` and ``seed`` select the cells.
        row: Texts of the row.
        groups: See ``revisions_by_cell``.
    """
    wanted = dict(zip(header, row, strict=True))
    made = {
        text
        for cell, texts in groups.items()
        if all(wanted.get(key, label) == label for key, label in zip(_KEYS, cell, strict=True))
        for text in texts
    }
    return ", ".join(sorted(made)) or NOTHING


def _short(version: str) -> str:
    """Return the first seven digits of a version's commit, or the version without one."""
    found = _COMMIT.search(version)
    return found[1] if found else version.removeprefix("robo-rl ")
