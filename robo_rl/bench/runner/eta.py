"""How long cells will take, by those that are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import median

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.suite.suite import CellKey

START_S = 5.0
"""What a run takes before its first stage begins, about."""


class EtaEstimator:
    """Medians of kept cells: of the same task and method, else of the method, else of all.

    What cells of a task and seed share is counted once for these, as what a cell of them took up.

    Args:
        kept: Whatever is kept, also under other settings.
    """

    def __init__(self, kept: Iterable[CellRecord]) -> None:
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        self._shared: dict[str, list[float]] = {}
        for each in kept:
            self.update(each)

    def update(self, kept: CellRecord) -> None:
        """Learn from a cell."""
        for group in _groups(kept.key):
            self._seconds.setdefault(group, []).append(START_S + kept.seconds)
        self._shared.setdefault(kept.task, []).append(kept.shared_seconds)

    def seconds(self, key: CellKey) -> float | None:
        """Of one cell; None where nothing is known."""
        known = (self._seconds[group] for group in _groups(key) if group in self._seconds)
        return next((median(found) for found in known), None)

    def total(
        self, keys: Iterable[CellKey], lots: Collection[tuple[str, int]], jobs: int
    ) -> float | None:
        """Of several cells.

        Of a lot all that its cells may share is counted, also where part of it is there.

        Args:
            keys: Which.
            lots: Tasks and seeds of which what cells share is to be made, too.
            jobs: So many at once.

        Returns:
            None where one is not known.
        """
        each = [self.seconds(key) for key in keys]
        known = [seconds for seconds in each if seconds is not None]
        shared = sum(median(self._shared[task]) for task, _ in lots if task in self._shared)
        return (sum(known) + shared) / jobs if len(known) == len(each) else None


def _groups(key: CellKey) -> list[tuple[str, ...]]:
    return [(key.task, key.method), (key.method,), ()]
