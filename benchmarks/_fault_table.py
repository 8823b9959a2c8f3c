"""Rows of a table of faults: run in batches, saved after each batch, and resumable."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from robo_rl.core.atomic_files import make_directory, write_file

TOLERANCE = 1e-6  # of limits, for rounding


class TrialCounts(NamedTuple):
    """Counts of some trials.

    Args:
        trials: Number of trials.
        violations: Number of trials with a violation.
        worst: Figure → its largest value.
        void: Number of further trials that were repeated, because the machine stalled in them.
        void_violations: Number of void trials with a violation.
    """

    trials: int
    violations: int
    worst: dict[str, float]
    void: int = 0
    void_violations: int = 0

    def __add__(self, other: TrialCounts) -> TrialCounts:  # type: ignore[override]
        """Return the sum of both counts."""
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
    """A row.

    Args:
        name: Name of the fault; also of its file.
        holds: Property that must hold.
        trials: Required number of trials.
        batch: Largest number of trials per batch.
        run: (first trial, number) → counts; a trial's result depends on its number alone.
    """

    name: str
    holds: str
    trials: int
    batch: int
    run: Callable[[int, int], TrialCounts]


def filled(fault: FaultRow, wanted: int, folder: Path, *, redo: bool = False) -> TrialCounts:
    """Return a row with at least so many trials; resume from the saved ones unless redo."""
    path = folder / f"{fault.name.replace(' ', '_').replace('%', 'percent')}.json"
    if redo:
        path.unlink(missing_ok=True)
    tally = TrialCounts(**json.loads(path.read_text())) if path.exists() else TrialCounts(0, 0, {})
    make_directory(folder)
    while tally.trials < wanted:
        tally += fault.run(tally.trials, min(fault.batch, wanted - tally.trials))
        write_file(path, json.dumps(tally._asdict(), indent=2).encode() + b"\n")
        _show(f"{fault.name}: {tally.trials} of {wanted}, {tally.violations} violations")
    _show("")
    return tally


HEADER = """| fault | tried | violations | what was to hold | worst |
|---|---|---|---|---|"""


def line(fault: FaultRow, tally: TrialCounts) -> str:
    """Return a row of the table, in Markdown."""
    worst = ", ".join(f"{name} {value:.3g}" for name, value in tally.worst.items())
    void = f" (void: {tally.void_violations} of {tally.void})" if tally.void else ""
    violations = f"{tally.violations}{void}"
    return f"| {fault.name} | {tally.trials:,} | {violations} | {fault.holds} | {worst or '–'} |"


def _show(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
