"""Runs the remaining cells of a suite, several at a time, until finished or stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from robo_rl.bench.results.cell_record import CellRecord
from robo_rl.bench.results.collect import make_cell_record
from robo_rl.bench.results.run_conditions import RunConditions
from robo_rl.bench.results.store import Results
from robo_rl.bench.runner.console import ProgressDisplay
from robo_rl.bench.runner.eta import EtaEstimator
from robo_rl.bench.runner.run_process import RunLockedError, RunProcess, stop_runs
from robo_rl.bench.runner.run_tasks import FinishedError, RunTask
from robo_rl.bench.suite.plan import Cell
from robo_rl.bench.suite.suite import CellKey
from robo_rl.core.errors import CheckpointError, RoboRlError
from robo_rl.train.checkpoint.progress import duration
from robo_rl.train.pipeline.world_digest import changed_parts, world_of

_GLANCE_S = 0.2


class BenchSession:
    """Works through runs; a failed run stops only the runs that require it.

    Args:
        results: Store of the finished cells.
        planned: Records of the cells when the session was planned; none of them holds up a cell.
        pace: Number of runs at once, threads of each, and version.
        estimate: Estimator of durations, updated with each finished cell.
        board: Progress display.
    """

    def __init__(
        self,
        results: Results,
        planned: Mapping[CellKey, CellRecord],
        pace: RunConditions,
        estimate: EtaEstimator,
        board: ProgressDisplay,
    ) -> None:
        self._results, self._planned, self._pace = results, planned, pace
        self._estimate, self._board = estimate, board
        self._elsewhere: set[str] = set()
        self._queue: list[RunTask] = []
        self._running: list[tuple[RunTask, RunProcess]] = []
        self.finished: list[CellKey] = []
        self.failed: dict[str, str] = {}

    def run(self, works: Iterable[RunTask]) -> None:
        """Run all tasks; ``failed`` maps the label of a failed run to its last output line.

        Raises:
            CheckpointError: A file cannot be written.
        """
        self._queue = list(works)
        try:
            while self._queue or self._running:
                self._begin()
                time.sleep(_GLANCE_S)
                self._look()
                self._show()
        except OSError as error:
            problem = f"cannot be written: {error.strerror or error}"
            raise CheckpointError(problem, where=error.filename) from error
        finally:
            stop_runs(job for _, job in self._running)
            self._running.clear()

    def _begin(self) -> None:
        """Start the runs that are ready; fail those with requirements that no run makes."""
        for work in list(self._queue):
            if len(self._running) >= self._pace.jobs:
                return
            if work.is_done:
                self._queue.remove(work)
            elif work.is_ready:
                self._start(work)
            elif not any(work.waits_for(other) for other in self._coming()):
                self._queue.remove(work)
                self._fail(work, "what it shares with others was not made")

    def _coming(self) -> list[RunTask]:
        return [*self._queue, *(work for work, _ in self._running)]

    def _start(self, work: RunTask) -> None:
        """Start a run; shared stages that another process makes stay in the queue."""
        try:
            job = work.start(self._pace, self.is_kept)
        except RunLockedError:
            if work.provides is not None:
                self._wait(work)
                return
            self._fail(work, "another process is at it")
        except FinishedError:
            self._board.print_line(f"{work.label}: kept by another process meanwhile")
        except RoboRlError as error:
            self._fail(work, str(error))
        else:
            self._running.append((work, job))
            self._board.print_line(f"{work.label}: begun, log in {job.log}")
        self._queue.remove(work)

    def _wait(self, work: RunTask) -> None:
        if work.label not in self._elsewhere:
            self._elsewhere.add(work.label)
            self._board.print_line(f"{work.label}: another process is making it, waiting")

    def is_kept(self, cell: Cell) -> bool:
        """Return whether another process has kept a cell since the session was planned."""
        kept = self._results.find(cell.key)
        if kept is None or kept == self._planned.get(cell.key) or not kept.matches_cell(cell):
            return False
        return not (kept.world and changed_parts(kept.world, world_of(cell.experiment)))

    def _look(self) -> None:
        """Process the runs that have ended."""
        for work, job in list(self._running):
            if (status := job.status) is None:
                continue
            if status:
                self._fail(work, job.last_line() or f"ended with status {status}")
            elif work.cell is not None:
                self._keep(work)
            self._running.remove((work, job))
            job.close()  # only after the cell is kept, so that no other process starts it

    def _keep(self, work: RunTask) -> None:
        try:
            kept = self._record(work)
        except RoboRlError as error:
            self._fail(work, str(error))
            return
        self._results.write(kept)
        self._estimate.update(kept)
        self.finished.append(kept.key)
        if others := [each for each in kept.commits if each != self._pace.version]:
            ours = self._pace.version or "of unknown version"
            self._board.print_line(
                f"{work.label}: made by robo-rl {', '.join(others)}; this is {ours}"
            )
        self._board.print_line(f"{work.label}: done after {duration(work.seconds)}")

    def _record(self, work: RunTask) -> CellRecord:
        assert work.cell is not None
        shared = work.requires.labels if work.requires else ()
        return make_cell_record(self._results.suite, work.cell, work.run, shared)

    def _fail(self, work: RunTask, problem: str) -> None:
        self.failed[work.label] = problem
        self._board.print_line(f"{work.label}: {problem}")

    def _show(self) -> None:
        running = [(work.label, job.last_line()) for work, job in self._running]
        coming = self._coming()
        keys = [work.cell.key for work in coming if work.cell is not None]
        lots = {work.provides.task_and_seed for work in coming if work.provides is not None}
        parts = [f"{len(self.finished)} done", f"{len(keys)} to come"]
        seconds = self._estimate.total(keys, lots, self._pace.jobs)
        gone = sum(work.seconds for work, _ in self._running) / self._pace.jobs
        if seconds is not None and seconds > gone:
            parts.append(f"{duration(seconds - gone)} left")
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        self._board.update(running, " · ".join(parts))
