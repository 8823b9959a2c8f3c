"""Runs of a benchmark session: those of cells, after those of their shared stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from robo_rl.bench.results.run_conditions import RunConditions, add_conditions, conditions_of
from robo_rl.bench.runner.run_process import RunProcess
from robo_rl.bench.runner.shared_stages import SharedStages, copy_shared_stages, find_shared_stages
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.run_directory import is_finished

SHARED = "shared"


@dataclass
class RunTask:
    """One run of a session.

    Args:
        label: Label for the display.
        experiment: Experiment to run.
        out: Folder of the run.
        store: Folder of the shared runs.
        requires: Shared stages that it starts from; None without.
        cell: Cell of the run; None for a run of shared stages.
        provides: Shared stages that it makes; None for a run of a cell.
    """

    label: str
    experiment: Experiment
    out: Path
    store: Path
    requires: SharedStages | None = None
    cell: Cell | None = None
    provides: SharedStages | None = None
    begun: float = field(default=0.0, init=False)

    @property
    def run(self) -> Path:
        """Directory of the run."""
        return self.out / self.experiment.name

    @property
    def is_ready(self) -> bool:
        """Whether its required shared stages are finished."""
        return self.requires is None or self.requires.is_done(self.store)

    @property
    def is_done(self) -> bool:
        """Whether the shared stages that it provides are finished."""
        return self.provides is not None and self.provides.is_done(self.store)

    @property
    def seconds(self) -> float:
        """Seconds since its start in this session."""
        return time.monotonic() - self.begun

    def waits_for(self, other: RunTask) -> bool:
        """Return whether ``other`` makes the shared stages that this run requires."""
        return self.requires is not None and other.run == self.store / self.requires.name

    def start(self, pace: RunConditions, is_kept: Callable[[Cell], bool]) -> RunProcess:
        """Start or resume the run.

        Args:
            pace: Conditions of this session, recorded in the run's folder unless the run is
                finished and only its record is made again.
            is_kept: Returns whether a cell is finished; called under the run's lock.

        Raises:
            RunLockedError: Another process holds the run.
            FinishedError: Another process has finished the cell.
            DataError: A file in the run's folder is damaged.
            OSError: A file cannot be written.
        """

        def prepare() -> None:
            if self.cell is not None and is_kept(self.cell):
                raise FinishedError
            if conditions_of(self.run) and is_finished(self.run, self.experiment):
                return
            if self.requires is not None:
                copy_shared_stages(self.requires, self.store, self.run)
            add_conditions(self.run, [pace])

        self.begun = time.monotonic()
        return RunProcess(self.experiment, self.out, pace.threads, prepare)


class FinishedError(Exception):
    """Another process has finished a cell."""


def run_tasks(
    cells: Mapping[CellKey, Cell], keys: Iterable[CellKey], labels: Sequence[str], out: Path
) -> list[RunTask]:
    """Return the runs of some cells in order, each after the runs that it requires.

    Args:
        cells: All cells of the suite.
        keys: Cells to run.
        labels: Stages that may be shared.
        out: Folder of the suite's runs.
    """
    store, common = out / SHARED, find_shared_stages(cells.values(), labels)
    found: dict[str, RunTask] = {}
    for key in keys:
        share = common.get(key)
        for each in _line(share):
            if not each.is_done(store):
                task, seed = each.task_and_seed
                label = f"{task} {' and '.join(each.labels)} {seed}"
                work = RunTask(label, each.experiment, store, store, each.parent, provides=each)
                found.setdefault(each.name, work)
        place = out / key.task / key.method
        found[str(key)] = RunTask(str(key), cells[key].experiment, place, store, share, cells[key])
    return list(found.values())


def _line(share: SharedStages | None) -> list[SharedStages]:
    """Return the shared stages and their ancestors, oldest first."""
    return [] if share is None else [*_line(share.parent), share]
