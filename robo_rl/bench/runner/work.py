"""What a sitting has to do: runs of cells, and before them the runs of what cells share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from robo_rl.bench.results.timings import Pace, note
from robo_rl.bench.runner.jobs import Job
from robo_rl.bench.runner.shared_stages import Share, shares, take_up
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import Key
from robo_rl.train.pipeline.experiment import Experiment

SHARED = "shared"


@dataclass
class Work:
    """One run to be made.

    Args:
        label: For the reader.
        experiment: To run.
        out: Folder of the run.
        store: Folder of the shared runs.
        takes: What it takes up, if anything.
        cell: Whose run it is; None of what cells share.
        makes: What cells share, if it is that.
    """

    label: str
    experiment: Experiment
    out: Path
    store: Path
    takes: Share | None = None
    cell: Cell | None = None
    makes: Share | None = None
    begun: float = field(default=0.0, init=False)

    @property
    def run(self) -> Path:
        """Directory of the run."""
        return self.out / self.experiment.name

    @property
    def is_ready(self) -> bool:
        """Whether what it takes up is there."""
        return self.takes is None or self.takes.is_done(self.store)

    @property
    def is_done(self) -> bool:
        """Whether what it makes for others is there, whoever made it."""
        return self.makes is not None and self.makes.is_done(self.store)

    @property
    def seconds(self) -> float:
        """Since it was begun in this sitting."""
        return time.monotonic() - self.begun

    def waits_for(self, other: Work) -> bool:
        """Whether the other one makes what this one takes up."""
        return self.takes is not None and other.run == self.store / self.takes.name

    def begin(self, pace: Pace, is_kept: Callable[[Cell], bool]) -> Job:
        """Start it, or go on with it.

        Args:
            pace: Of this sitting; noted in the run's folder.
            is_kept: Whether a cell is finished by now; asked when nobody else can be at it.

        Raises:
            BusyError: Another process is at it.
            FinishedError: Another process has finished the cell.
            DataError: Something in the run's folder is damaged.
            OSError: Something cannot be written.
        """

        def prepare() -> None:
            if self.cell is not None and is_kept(self.cell):
                raise FinishedError
            if self.takes is not None:
                take_up(self.takes, self.store, self.run)
            note(self.run, [pace])

        self.begun = time.monotonic()
        return Job(self.experiment, self.out, pace.threads, prepare)


class FinishedError(Exception):
    """Another process has finished a cell."""


def works(
    cells: Mapping[Key, Cell], keys: Iterable[Key], labels: Sequence[str], out: Path
) -> list[Work]:
    """The works of some cells, in their order, each behind what it takes up.

    Args:
        cells: All of the suite.
        keys: Those to be run.
        labels: Stages that may be shared.
        out: Folder of the suite's runs.
    """
    store, common = out / SHARED, shares(cells.values(), labels)
    found: dict[str, Work] = {}
    for key in keys:
        share = common.get(key)
        for each in _line(share):
            if not each.is_done(store):
                task, seed = each.lot
                label = f"{task} {' and '.join(each.labels)} {seed}"
                work = Work(label, each.experiment, store, store, each.parent, makes=each)
                found.setdefault(each.name, work)
        place = out / key.task / key.method
        found[str(key)] = Work(str(key), cells[key].experiment, place, store, share, cells[key])
    return list(found.values())


def _line(share: Share | None) -> list[Share]:
    """The share and those it takes up, the first first."""
    return [] if share is None else [*_line(share.parent), share]
