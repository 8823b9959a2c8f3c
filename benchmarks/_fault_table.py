"""Rows of a table of faults: run in batches, saved after each, and resumable."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from robo_rl.bench.results.cell_record import read_json
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.errors import DataError

TOLERANCE = 1e-6  # relative tolerance on limits, for rounding


class TrialCounts(NamedTuple):
    """Counts of some trials.

    Args:
        trials: Number of trials.
        violations: Number of trials with a violation.
        worst: Name → largest value.
        void: Number of void trials, which were repeated because the machine stalled.
        void_violations: Number of void trials with a violation.
    """

    trials: int
    violations: int
    worst: dict[str, float]
    void: int = 0
    void_violations: int = 0

    def __add__(self, other: TrialCounts) -> TrialCounts:  # type: ignore[override]
        """Return the sum of the counts, with the larger of the worst values."""
        names = self.worst.keys() | other.worst.keys()
        least = float("-inf")
        worst = {n: max(self.worst.get(n, least), other.worst.get(n, least)) for n in sorted(names)}
        return TrialCounts(
            self.trials + other.trials,
            self.violations + other.violations,
            worst,
            self.void + other.void,
            self.void_violations + other.void_violations,
        )

    def voided(self) -> TrialCounts:
        """Return these trials as void ones."""
        return TrialCounts(0, 0, {}, self.trials, self.violations)


class FaultRow(NamedTuple):
    """A row of the table.

    Args:
        name: Name of the fault and of its file.
        holds: Property that must hold.
        trials: Number of trials.
        batch: Largest number of trials per run.
        run: (first trial, number of trials) → their counts; a trial does not depend on its batch.
    """

    name: str
    holds: str
    trials: int
    batch: int
    run: Callable[[int, int], TrialCounts]


def filled(fault: FaultRow, wanted: int, folder: Path, *, redo: bool = False) -> TrialCounts:
    """Return a row with at least ``wanted`` trials, resumed from its saved counts or from zero.

    With ``redo`` the counts begin at zero in a file of their own, which replaces the kept one once
    it has ``wanted`` trials. An interrupted ``redo`` resumes from that file.

    Raises:
        DataError: A file of counts is damaged.
    """
    path = folder / f"{fault.name.replace(' ', '_').replace('%', 'percent')}.json"
    counts = path.with_suffix(".redo.json") if redo else path
    tally = _read(counts)
    make_directory(folder)
    while tally.trials < wanted:
        tally += fault.run(tally.trials, min(fault.batch, wanted - tally.trials))
        write_file(counts, json.dumps(tally._asdict(), indent=2).encode() + b"\n")
        _show(f"{fault.name}: {tally.trials} of {wanted}, {tally.violations} violations")
    if redo:
        counts.replace(path)
    _show("")
    return tally


def _read(path: Path) -> TrialCounts:
    """Return the counts of a file, zero without one."""
    if not path.exists():
        return TrialCounts(0, 0, {})
    hint = "delete it, and the trials are made again"
    try:
        return TrialCounts(**read_json(path, hint))
    except TypeError as error:
        raise DataError("holds no counts", where=path, found=str(error), hint=hint) from error


HEADER = """| fault | tried | violations | what was to hold | worst |
|---|---|---|---|---|"""


def line(fault: FaultRow, tally: TrialCounts) -> str:
    """Return a row of the table in Markdown."""
    worst = ", ".join(f"{name} {value:.3g}" for name, value in tally.worst.items())
    void = f" (void: {tally.void_violations} of {tally.void})" if tally.void else ""
    violations = f"{tally.violations}{void}"
    return f"| {fault.name} | {tally.trials:,} | {violations} | {fault.holds} | {worst or '–'} |"


def _show(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
