"""What a sitting has to do: runs of cells, and before them the runs of what cells share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from robo_rl.bench.results.run_conditions import RunConditions, add_conditions
from robo_rl.bench.runner.run_process import RunProcess
from robo_rl.bench.runner.shared_stages import SharedStages, copy_shared_stages, find_shared_stages
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.train.pipeline.experiment import Experiment

SHARED = "shared"


@dataclass
class RunTask:
    """One run to be made.

    Args:
        label: For the reader.
        experiment: To run.
        out: Folder of the run.
        store: Folder of the shared runs.
        requires: What it takes up, if anything.
        cell: Whose run it is; None of what cells share.
        provides: What cells share, if it is that.
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
        """Whether what it takes up is there."""
        return self.requires is None or self.requires.is_done(self.store)

    @property
    def is_done(self) -> bool:
        """Whether what it makes for others is there, whoever made it."""
        return self.provides is not None and self.provides.is_done(self.store)

    @property
    def seconds(self) -> float:
        """Since it was begun in this sitting."""
        return time.monotonic() - self.begun

    def waits_for(self, other: RunTask) -> bool:
        """Whether the other one makes what this one takes up."""
        return self.requires is not None and other.run == self.store / self.requires.name

    def start(self, pace: RunConditions, is_kept: Callable[[Cell], bool]) -> RunProcess:
        """Start it, or go on with it.

        Args:
            pace: Of this sitting; noted in the run's folder.
            is_kept: Whether a cell is finished by now; asked when nobody else can be at it.

        Raises:
            RunLockedError: Another process is at it.
            FinishedError: Another process has finished the cell.
            DataError: Something in the run's folder is damaged.
            OSError: Something cannot be written.
        """

        def prepare() -> None:
            if self.cell is not None and is_kept(self.cell):
                raise FinishedError
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
    """The works of some cells, in their order, each behind what it takes up.

    Args:
        cells: All of the suite.
        keys: Those to be run.
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
    """The share and those it takes up, the first first."""
    return [] if share is None else [*_line(share.parent), share]
