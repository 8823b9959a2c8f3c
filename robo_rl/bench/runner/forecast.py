"""Forecasts what a benchmark session would run and how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.pilot_choices import PilotChoices, with_choices
from robo_rl.bench.results.store import Results
from robo_rl.bench.runner.suite_runner import CellState, SuiteRunner
from robo_rl.bench.suite.plan import SuitePlan
from robo_rl.bench.suite.suite import CellKey, cell_keys
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.core.errors import RoboRlError
from robo_rl.train.checkpoint.progress import duration

UNKNOWN = "unknown time"


@dataclass(frozen=True)
class CellForecast:
    """Forecast of a cell.

    Args:
        key: The cell.
        state: Its state.
        will_run: Whether it would run.
        seconds: Its duration in s; None if unknown.
    """

    key: CellKey
    state: CellState
    will_run: bool
    seconds: float | None


@dataclass(frozen=True)
class SuiteForecast:
    """Forecast of a session.

    Args:
        suite: Name of the suite.
        cells: Forecasts of the selected cells.
        seconds: Duration of the session in s; None if that of a cell is unknown.
    """

    suite: str
    cells: list[CellForecast]
    seconds: float | None

    @property
    def to_run(self) -> int:
        """Number of cells that would run."""
        return sum(each.will_run for each in self.cells)

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Task, method, seed, state, and duration of each cell."""
        return [
            (*map(str, each.key), str(each.state), duration(each.seconds) if each.seconds else "")
            for each in self.cells
        ]

    def line(self) -> str:
        """Return the forecast as one line."""
        left = f"{UNKNOWN}: none is kept" if self.seconds is None else duration(self.seconds)
        return f"{self.to_run} of {len(self.cells)} to run; {left}"

    def numbers(self) -> dict[str, Any]:
        """Return the forecast as JSON values."""
        cells = [
            {**each.key._asdict(), "state": str(each.state), "seconds": each.seconds}
            for each in self.cells
        ]
        return {"cells": cells, "to_run": self.to_run, "seconds": self.seconds}


def forecast_suite(runner: SuiteRunner, jobs: int, *, redo: bool) -> SuiteForecast:
    """Return what ``runner.run`` would do.

    Args:
        runner: The suite, or a part of it.
        jobs: Number of cells at once; 0 takes that of the suite.
        redo: Whether cells kept under other settings or defaults would run again.
    """
    chosen = runner.to_run(redo=redo)
    cells = [
        CellForecast(
            key, state, key in chosen, runner.estimate.seconds(key) if key in chosen else None
        )
        for key, state in runner.states().items()
    ]
    lots = {
        work.provides.task_and_seed
        for work in runner.run_tasks(chosen)
        if work.provides is not None
    }
    total = runner.estimate.total(chosen, lots, jobs or runner.plan.suite.jobs)
    return SuiteForecast(runner.plan.name, cells, total)


def forecast_total(found: Iterable[SuiteForecast]) -> str:
    """Return the forecast of several suites as one line."""
    suites = list(found)
    known = sum(each.seconds for each in suites if each.seconds is not None)
    unknown = [each.suite for each in suites if each.seconds is None]
    left = [duration(known)] if known or not unknown else []
    left += [f"{UNKNOWN} for {', '.join(unknown)}: none is kept"] if unknown else []
    runs, cells = sum(each.to_run for each in suites), sum(len(each.cells) for each in suites)
    return f"all suites: {runs} of {cells} to run; {', and '.join(left)}"


def suite_row(name: str, results: Path) -> tuple[str, ...]:
    """Return the table row of a suite: name, kept, further and stale cells, and description.

    Only kept cells are composed, so that it is fast.
    """
    cells: int | str = "?"
    try:
        plan = load_plan(name)
        cells = len(cell_keys(plan.suite))
        plan = with_choices(plan, PilotChoices.read(results, plan.name).valid(plan))
        own, further, stale = _counted(plan, Results(results, plan.name).read())
    except RoboRlError as error:
        return name, f"? of {cells}", "?", "?", str(error).splitlines()[0]
    return name, f"{own} of {cells}", str(further), str(stale), plan.suite.description


def _counted(plan: SuitePlan, kept: Mapping[CellKey, CellRecord]) -> tuple[int, int, int]:
    """Count the kept cells of the suite's seeds, of further seeds, and of other settings."""
    found = [
        key for key in kept if key.task in plan.suite.tasks and key.method in plan.suite.methods
    ]
    good = [key for key in found if kept[key].matches_cell(plan.cell(key, has_run=True))]
    own = sum(key.seed in plan.suite.seeds for key in good)
    return own, len(good) - own, len(found) - len(good)
