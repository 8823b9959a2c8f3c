"""Remarks on a summary: missing or excluded cells, and differences between runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robo_rl.bench.reporting.cell_groups import group_cells


def remarks(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a remark for each kind of missing or excluded cells and for different conditions."""
    if summary["missing"]:
        yield f"missing, {len(summary['missing'])}: {group_cells(summary['missing'])}"
    if summary["stale"]:
        names = group_cells(summary["stale"])
        yield f"other settings, not in the tables (--redo runs these cells again): {names}"
    if others := summary["other_world"]:
        names = "; ".join(f"{cell} ({differs})" for cell, differs in others.items())
        yield f"another world, not in the tables (--redo runs these cells again): {names}"
    if summary["unscored"]:
        names = group_cells(summary["unscored"])
        yield f"records without the reported measure, not in the tables: {names}"
    machines, commits = (summary["provenance"][name] for name in ("machines", "commits"))
    if len(machines) > 1:
        groups = _groups(machines, "on")
        yield (
            "seconds are not comparable, because the machine or the number of parallel cells"
            f" differs: {groups}"
        )
    elif machines:
        yield f"run on {next(iter(machines))}"
    if len(commits) > 1:
        yield (
            "several commits made these cells; one with shared stages or a resumed run can have"
            f" more than one: {_groups(commits, 'by')}"
        )
    elif commits:
        yield f"made by {next(iter(commits))}"
    if interrupted := summary["provenance"]["interrupted"]:
        names = group_cells(interrupted)
        yield f"resumed after an interruption, {len(interrupted)}: {names}"
    if unnoted := summary["provenance"]["interruption_unknown"]:
        yield f"the records of {len(unnoted)} cells do not state whether a run was interrupted"
    for options, cells in summary["former_defaults"].items():
        names = group_cells(cells)
        yield (
            f"{len(cells)} with other values than the current defaults, {options} (--redo runs"
            f" these cells again): {names}"
        )
    if summary["world_unknown"]:
        yield f"the records of {summary['world_unknown']} cells do not contain the world"
    if summary["versions"]:
        yield f"with {'; '.join(summary['versions'])}"


def _groups(cells: Mapping[str, list[str]], word: str) -> str:
    """Return the number of cells of each kind, with the names of the cells in smaller groups."""
    most = max(cells, key=lambda name: len(cells[name]))
    parts = [
        f"{len(found)} {word} {name}" + ("" if name == most else f" ({group_cells(found)})")
        for name, found in cells.items()
    ]
    return "; ".join(parts)
