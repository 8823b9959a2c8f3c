"""Runs the remaining cells of a suite and summarises the kept ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from robo_rl.bench.reporting.table import Table
from robo_rl.bench.reporting.tables import tables
from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.origin.world_mismatch import world_mismatches
from robo_rl.bench.results.pilot_choices import PilotChoices, choose_settings, with_choices
from robo_rl.bench.results.run_conditions import RunConditions, describe_machine
from robo_rl.bench.results.store import Results
from robo_rl.bench.results.summary import (
    FullSuite,
    comparable_cells,
    summarise,
    with_current_settings,
)
from robo_rl.bench.runner.console import ProgressDisplay
from robo_rl.bench.runner.eta import EtaEstimator
from robo_rl.bench.runner.run_tasks import RunTask, run_tasks
from robo_rl.bench.runner.session import BenchSession
from robo_rl.bench.suite.pilots import SelectBy, method_of
from robo_rl.bench.suite.plan import Cell, SuitePlan
from robo_rl.bench.suite.suite import CellKey, Suite, cell_keys, select_part
from robo_rl.bench.suite.suite_file import load_plan
from robo_rl.config.provenance import machine_info, versions
from robo_rl.core.errors import ConfigError, RoboRlError
from robo_rl.env.gym_envs.env import usable_cpus
from robo_rl.train.pipeline.preflight.inputs import check_inputs
from robo_rl.train.pipeline.preflight.run_warnings import emit_precision_warnings


class CellState(StrEnum):
    """State of a cell."""

    KEPT = "kept"
    FORMER = "kept with former defaults"
    STALE = "kept under other settings"
    ELSEWHERE = "kept of another world"
    BEGUN = "begun"
    TO_RUN = "to run"


_NOT_COMPARED = {CellState.STALE, CellState.ELSEWHERE}


@dataclass(frozen=True)
class BenchFolders:
    """Folders of the benchmark.

    Args:
        out: Runs, ``OUT/SUITE/TASK/METHOD/SEED-DIGEST``.
        results: Kept cells, ``RESULTS/SUITE/TASK/METHOD/SEED.json``.
        published: Published kept cells, for time estimates; same layout.
    """

    out: Path
    results: Path
    published: Path | None = None


class SuiteRunner:
    """A suite with its kept cells.

    Args:
        name: Name or file of the suite.
        overrides: Overrides for every cell.
        folders: Folders of runs and results.
        pilots: Whether to run the suite's pilots instead of its cells.

    Raises:
        ConfigError: The suite is invalid, or has no pilots; the message lists all problems.
        DataError: A kept cell is damaged; without ``pilots`` also the file of the choices.
    """

    def __init__(
        self, name: str, overrides: Sequence[str], folders: BenchFolders, *, pilots: bool = False
    ) -> None:
        plan = load_plan(name, overrides)
        self.name, self.pilots = plan.name, pilots
        self.select_by: SelectBy = plan.suite.pilots.select_by if plan.suite.pilots else "final"
        self.choices: PilotChoices = _choices(plan, folders, allow_damaged=pilots)
        self.plan: SuitePlan = plan.pilot_plan() if pilots else with_choices(plan, self.choices)
        self.results = Results(folders.results, self.plan.name)
        self.out = folders.out / self.plan.name
        self.part: Suite = self.plan.suite
        self.kept: dict[CellKey, CellRecord] = self.results.read()
        self.cells: dict[CellKey, Cell] = self.plan.cells(self._seeds(), self.kept)
        self.estimate = EtaEstimator(self._timed(folders))
        self._all_seeds = True

    def select(self, tasks: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> None:
        """Select a part of the suite, or further seeds; see ``select_part``."""
        methods = [each for name in methods for each in self._pilots_of(name)]
        self.part = select_part(self.plan.suite, tasks, methods, seeds, self.plan.name)
        self._all_seeds = not seeds
        known = {key.seed for key in self.cells}
        self.cells |= self.plan.cells([seed for seed in self.part.seeds if seed not in known])

    def _pilots_of(self, method: str) -> list[str]:
        """Return the pilots of a method; the method itself if it has none here."""
        return [name for name in self.plan.suite.methods if method_of(name) == method] or [method]

    def keys(self) -> list[CellKey]:
        """Return the selected cells, with kept cells of further seeds unless seeds are set."""
        own = cell_keys(self.part)
        seeds = self._seeds() if self._all_seeds else self.part.seeds
        further = cell_keys(self.part, [seed for seed in seeds if seed not in self.part.seeds])
        return own + [key for key in further if key in self.kept and key in self.cells]

    def _timed(self, folders: BenchFolders) -> list[CellRecord]:
        """Return the cells whose times are known: kept, published, or else of ``timed_like``."""
        own = {**_published(folders, self.name, self.plan), **self.kept}
        like = self.plan.suite.timed_like
        if not own and like and folders.published is not None:
            own = Results(folders.published, like).read()
        return list(own.values())

    def _seeds(self) -> list[int]:
        """Return the suite's seeds, then further seeds of kept cells."""
        suite = self.plan.suite
        found = {k.seed for k in self.kept if k.task in suite.tasks and k.method in suite.methods}
        return [*suite.seeds, *sorted(found - set(suite.seeds))]

    def states(self) -> dict[CellKey, CellState]:
        """Return the state of each cell."""
        others = world_mismatches(self.cells, with_current_settings(self.cells, self.kept))
        found = {key: self._state(key) for key in self.keys()}
        return {
            key: CellState.ELSEWHERE if key in others else state for key, state in found.items()
        }

    def to_run(self, *, redo: bool) -> list[CellKey]:
        """Return the cells that are not kept; with ``redo`` all that a run of today would change.

        These are the cells of ``stale``, and those whose runs had other defaults.
        """
        changed = {CellState.FORMER, *_NOT_COMPARED} if redo else set[CellState]()
        wanted = {CellState.BEGUN, CellState.TO_RUN} | changed
        return [key for key, state in self.states().items() if state in wanted]

    def stale(self) -> list[CellKey]:
        """Return cells kept under other settings, or in another world than the newest cell."""
        return [key for key, state in self.states().items() if state in _NOT_COMPARED]

    def run_tasks(self, chosen: Sequence[CellKey]) -> list[RunTask]:
        """Return the unfinished runs for these cells, with those of their shared stages.

        Raises:
            ConfigError: A cell kept under other settings is invalid under the current ones.
        """
        again = {key: self.plan.cell(key) for key in chosen if key in self.kept}
        return run_tasks(self.cells | again, chosen, self.plan.suite.shared, self.out)

    def missing_pilots(self) -> ConfigError | None:
        """Return the error for selected methods without a chosen setting; None if all have one."""
        missing = [m for m in self.part.methods if m not in self.choices.methods]
        if self.plan.suite.pilots is None or not missing:
            return None
        return ConfigError(
            "its pilots have not chosen a setting of every method",
            where=f"suite {self.name}",
            expected="a choice among the current settings",
            found=f"none of {', '.join(missing)}",
            hint=f"`robo-rl bench {self.name} --pilots` makes it",
        )

    def run(self, jobs: int, *, redo: bool) -> BenchSession:
        """Run the cells of ``to_run``.

        Pilots that are all kept then choose the settings of their methods.

        Args:
            jobs: Number of cells at once; 0 takes that of the suite. Cells divide torch's threads
                among them, but each has as many env workers as a single cell.
            redo: Run cells kept under other settings or defaults again and replace them.

        Raises:
            CheckpointError: A file cannot be written, or one that a cell reads is damaged.
            ConfigError, DataError: The pilots have not chosen a setting of every method, or a file
                that a cell reads is missing, is damaged or does not fit.
        """
        if (refusal := self.missing_pilots()) is not None:
            raise refusal
        jobs = jobs or self.plan.suite.jobs
        chosen = self.to_run(redo=redo)
        self._check_files(chosen)
        threads = max(1, usable_cpus() // jobs)
        version, place = versions().get("robo-rl", ""), describe_machine(machine_info())
        pace = RunConditions(jobs=jobs, threads=threads, version=version, machine=place)
        tasks = self.run_tasks(chosen)
        emit_precision_warnings(task.experiment for task in tasks)
        with ProgressDisplay() as board:
            sitting = BenchSession(self.results, self.kept, pace, self.estimate, board)
            if chosen:
                self.results.demand_writable()
                sitting.run(tasks)
        self.kept = self.results.read()
        if self.pilots:
            self._choose()
        return sitting

    def _check_files(self, chosen: Sequence[CellKey]) -> None:
        """Check the files that these cells read, of all that have not begun."""
        for key in chosen:
            cell = self.plan.cell(key) if key in self.kept else self.cells[key]
            if not self._run(cell).is_dir():
                try:
                    check_inputs(cell.experiment.stages, cell.experiment)
                except RoboRlError as error:
                    error.place_within(f"cell '{key}'")
                    raise

    def _choose(self) -> None:
        """Keep the choices of methods whose pilots are complete, beside those of the others."""
        records = comparable_cells(self.cells, self.kept)
        found = choose_settings(self.plan, records, self.select_by)
        methods = {**self.choices.methods, **found.methods}
        self.choices = found.model_copy(update={"methods": methods})
        if methods and self.choices != PilotChoices.read(
            self.results.root, self.name, allow_damaged=True
        ):
            self.choices.write(self.results.root, self.name)

    def valid_records(self) -> dict[CellKey, CellRecord]:
        """Return the kept cells of the current settings and world."""
        return comparable_cells({key: self.cells[key] for key in self.keys()}, self.kept)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the suite; see ``summarise``."""
        cells = {key: self.cells[key] for key in self.keys()}
        whole = FullSuite(self.plan.filed_suite, comparable_cells(self.cells, self.kept))
        found = summarise(self.plan.name, self.part, cells, self.kept, whole)
        chosen = {m: each.model_dump(mode="json") for m, each in self.choices.methods.items()}
        return found | {"pilots": chosen}

    def tables(self, summary: dict[str, Any]) -> list[Table]:
        """Return the tables of a summary."""
        return tables(summary, self.part.report, list(self.part.methods))

    def _state(self, key: CellKey) -> CellState:
        cell = self.cells[key]
        if key in self.kept:
            record = self.kept[key]
            kept = CellState.FORMER if record.former_defaults(cell) else CellState.KEPT
            return kept if record.matches_cell(cell) else CellState.STALE
        return CellState.BEGUN if self._run(cell).is_dir() else CellState.TO_RUN

    def _run(self, cell: Cell) -> Path:
        return self.out / cell.key.task / cell.key.method / cell.experiment.name


def _published(folders: BenchFolders, name: str, plan: SuitePlan) -> dict[CellKey, CellRecord]:
    """Return the published cells of a suite, and those of its pilots if these are to run."""
    if folders.published is None:
        return {}
    first, second = (Results(folders.published, each).read() for each in (name, plan.name))
    return first | second


def _choices(plan: SuitePlan, folders: BenchFolders, *, allow_damaged: bool) -> PilotChoices:
    """Return the valid choices of a suite: those among its results, else the published ones."""
    for root in (folders.results, folders.published):
        if plan.suite.pilots is not None and root is not None:
            found = PilotChoices.read(root, plan.name, allow_damaged=allow_damaged).valid(plan)
            if found.methods:
                return found
    return PilotChoices().valid(plan)
