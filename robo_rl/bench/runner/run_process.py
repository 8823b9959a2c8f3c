"""Runs one ``robo-rl run`` in a separate process, with a log and a lock."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from pathlib import Path

from robo_rl.config.models import to_yaml
from robo_rl.core.atomic_files import make_directory, write_file
from robo_rl.core.file_lock import lock_file
from robo_rl.train.pipeline.experiment import Experiment

_PATIENCE_S = 120.0
_TAIL_BYTES = 4096


class RunProcess:
    """A running process; it and its children end with this process.

    Args:
        experiment: Resolved experiment.
        out: Folder of the run; beside it lie ``NAME.yaml``, ``NAME.log`` and ``NAME.lock``.
        threads: Number of threads that the process may use.
        prepare: Called under the lock, before the start; its exceptions cancel the start.

    Raises:
        RunLockedError: Another process holds the run.
        OSError: A file beside the run cannot be written.
    """

    def __init__(
        self, experiment: Experiment, out: Path, threads: int, prepare: Callable[[], None]
    ) -> None:
        make_directory(out)
        self.log = out / f"{experiment.name}.log"
        try:
            self._lock = lock_file(out / f"{experiment.name}.lock")  # inherited by the process
        except BlockingIOError:
            raise RunLockedError from None
        try:
            prepare()
            config = out / f"{experiment.name}.yaml"
            write_file(config, to_yaml(experiment).encode())
            words = ["-m", "robo_rl.train.pipeline.processes.child_process", "run"]
            words += [str(config.absolute()), "--out", str(out.absolute())]
            self._process = self._started([sys.executable, *words], threads)
        except BaseException:
            self._lock.close()
            raise

    def _started(self, words: list[str], threads: int) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            log.write(f"begun {datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC\n".encode())
            log.flush()
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,
                pass_fds=[self._lock.fileno()],
            )

    @property
    def status(self) -> int | None:
        """Exit status; None while it runs."""
        return self._process.poll()

    def last_line(self) -> str:
        """Return the last line of its log."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
            return next((line.strip() for line in reversed(lines) if line.strip()), "")
        return ""

    def interrupt(self) -> None:
        """Ask the process to save and stop; background processes ignore SIGINT."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)  # it ends its own children

    def kill(self) -> None:
        """Kill the process and its children; saved files are complete."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Release the lock."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._lock.close()


class RunLockedError(Exception):
    """Another process holds the run."""


def stop_runs(jobs: Iterable[RunProcess]) -> None:
    """Stop runs after their current update, after two minutes, or at a second Ctrl-C."""
    left = list(jobs)
    try:
        for job in left:
            job.interrupt()
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and any(job.status is None for job in left):
            time.sleep(0.05)
    finally:
        for job in left:
            job.kill()
            job.close()
