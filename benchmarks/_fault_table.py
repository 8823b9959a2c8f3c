"""Rows of a table of faults: run in batches, kept after each, gone on with where they stopped."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from robo_rl.core.atomic_files import make_directory, write_file

TOLERANCE = 1e-6  # of limits, for rounding


class TrialCounts(NamedTuple):
    """What came of some trials.

    Args:
        trials: How many.
        violations: In how many something did not hold.
        worst: Figure → its largest value.
        void: How many more were made anew, since the machine itself stood still in them.
        void_violations: In how many of those something did not hold.
    """

    trials: int
    violations: int
    worst: dict[str, float]
    void: int = 0
    void_violations: int = 0

    def __add__(self, other: TrialCounts) -> TrialCounts:  # type: ignore[override]
        """Of both."""
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
        """These trials as void ones."""
        return TrialCounts(0, 0, {}, self.trials, self.violations)


class FaultRow(NamedTuple):
    """A row.

    Args:
        name: Of the fault; also of its file.
        holds: What is to hold.
        trials: How many there are to be.
        batch: How many are run at a time, at most.
        run: First trial and how many → what came of them; a trial is the same whenever it is run.
    """

    name: str
    holds: str
    trials: int
    batch: int
    run: Callable[[int, int], TrialCounts]


def filled(fault: FaultRow, wanted: int, folder: Path, *, redo: bool = False) -> TrialCounts:
    """A row, from what is kept of it on, or anew, with at least so many trials."""
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
    """A row of the table, in Markdown."""
    worst = ", ".join(f"{name} {value:.3g}" for name, value in tally.worst.items())
    void = f" (void: {tally.void_violations} of {tally.void})" if tally.void else ""
    violations = f"{tally.violations}{void}"
    return f"| {fault.name} | {tally.trials:,} | {violations} | {fault.holds} | {worst or '–'} |"


def _show(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
