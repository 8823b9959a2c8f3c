"""Provenance of kept cells: machines, commits and interruptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.run_conditions import RunConditions, describe_machine
from robo_rl.bench.suite.suite import CellKey

UNKNOWN = "of unknown version"


def run_provenance(kept: Mapping[CellKey, CellRecord]) -> dict[str, Any]:
    """Return ``machines`` and ``commits`` with their cells, and interrupted cells."""
    return {
        "machines": _grouped(kept, lambda each: [_machine(each, pace) for pace in each.conditions]),
        "commits": _grouped(kept, lambda each: [f"robo-rl {v or UNKNOWN}" for v in each.commits]),
        "interrupted": [str(key) for key, each in kept.items() if each.interrupted],
        "interruption_unknown": [
            str(key) for key, each in kept.items() if each.interrupted is None
        ],
    }


def versions(kept: Mapping[CellKey, CellRecord]) -> list[str]:
    """Return the further package versions that numbers depend on, over all processes."""
    return sorted({text for each in kept.values() for text in _versions(each)})


def _grouped(
    kept: Mapping[CellKey, CellRecord], how: Callable[[CellRecord], Iterable[str]]
) -> dict[str, list[str]]:
    """Group cells by their conditions; a cell of several sessions may be in several groups."""
    found: dict[str, list[str]] = {}
    for key, each in kept.items():
        for name in dict.fromkeys(how(each)):
            found.setdefault(name, []).append(str(key))
    return dict(sorted(found.items()))


def _machine(kept: CellRecord, pace: RunConditions) -> str:
    """Describe the machine, jobs and threads that times depend on."""
    place = pace.machine or describe_machine(kept.machine)
    threads = "1 thread" if pace.threads == 1 else f"{pace.threads} threads"
    return f"{place}, {pace.jobs} at once, {threads} each"


def _versions(kept: CellRecord) -> set[str]:
    simulators = ("mujoco", "gymnasium", "gymnasium-robotics", "metaworld")
    names = ("python", "torch", "numpy", *simulators)
    noted = [start for stage in kept.stages.values() for start in stage.starts]
    texts = (
        ", ".join(f"{name} {found[name]}" for name in names if name in found)
        for found in noted or [kept.versions]
    )
    return {text for text in texts if text}
