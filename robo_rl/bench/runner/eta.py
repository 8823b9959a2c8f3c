"""Estimates the duration of cells from kept cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import median

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.suite.suite import CellKey

START_S = 5.0
"""Approximate start-up time of a run in s, before its first stage."""


_ANY = ""


class EtaEstimator:
    """Medians over kept cells of the same task and method, else of the method, else of all.

    Before that of all, a pilot has the median of the method that it belongs to.

    Shared stages count once per task and seed; medians over the same task, else over all.

    Args:
        kept: All kept cells, also those of other settings.
    """

    def __init__(self, kept: Iterable[CellRecord]) -> None:
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        self._shared: dict[str, list[float]] = {}
        for each in kept:
            self.update(each)

    def update(self, kept: CellRecord) -> None:
        """Add a kept cell."""
        for group in _groups(kept.key):
            self._seconds.setdefault(group, []).append(START_S + kept.seconds)
        for task in (kept.task, _ANY):
            self._shared.setdefault(task, []).append(kept.shared_seconds)

    def seconds(self, key: CellKey) -> float | None:
        """Return the duration of one cell in s; None if unknown."""
        known = (self._seconds[group] for group in _groups(key) if group in self._seconds)
        return next((median(found) for found in known), None)

    def total(
        self, keys: Iterable[CellKey], lots: Collection[tuple[str, int]], jobs: int
    ) -> float | None:
        """Return the duration of several cells in s.

        Shared stages count in full, even if some of them are finished. Fewer cells than jobs run at
        once as cells.

        Args:
            keys: Cells to run.
            lots: Tasks and seeds with unfinished shared stages.
            jobs: Number of cells at once.

        Returns:
            The duration in s, or None if that of a cell is unknown.
        """
        each = [self.seconds(key) for key in keys]
        known = [seconds for seconds in each if seconds is not None]
        shared = sum(self._shared_seconds(task) for task, _ in lots)
        at_once = max(min(jobs, len(each)), 1)
        return (sum(known) + shared) / at_once if len(known) == len(each) else None

    def _shared_seconds(self, task: str) -> float:
        """Return the duration of a task's shared stages in s; 0 if nothing is kept."""
        return median(self._shared.get(task) or self._shared.get(_ANY) or [0.0])


def _groups(key: CellKey) -> list[tuple[str, ...]]:
    method = key.method.partition("@")[0]
    return list(
        dict.fromkeys([(key.task, key.method), (key.method,), (key.task, method), (method,), ()])
    )
