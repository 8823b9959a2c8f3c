"""Whether the machine itself stood still: what a figure of timing on a virtual one has to know.

On every core a process of its own does nothing but sleep for 2 ms and look at the clock, at
real-time priority, so that no program keeps it from doing so. What it oversleeps by more than
``LEAST_S`` was taken from the whole core: by the host of a virtual machine, or by the kernel. Where
the system allows no such priority nothing is looked at, and nothing excused.

    python benchmarks/_standstill.py FILE CORE
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PERIOD_S = 0.002
LEAST_S = 0.005
"""What counts as standing still: a quarter of the shortest control period in these figures."""
PRIORITY = 90


class Stall(NamedTuple):
    """From when to when a core stood still, on the machine's monotonic clock in s."""

    began_s: float
    ended_s: float

    @property
    def long_s(self) -> float:
        """How long."""
        return self.ended_s - self.began_s


class StallMonitor:
    """What was seen so far.

    Args:
        files: Of the cores, which they write to; none where nothing is looked at.
    """

    def __init__(self, files: list[Path]) -> None:
        self._files = files

    @property
    def seen(self) -> bool:
        """Whether anything is looked at."""
        return bool(self._files)

    def between(self, began_s: float, ended_s: float) -> list[Stall]:
        """Those that overlap with that time, which is waited for; of all cores, in order."""
        time.sleep(max(ended_s - time.monotonic(), 0.0) + 5.0 * PERIOD_S)  # until it is written
        lines = [line for file in self._files for line in file.read_text().splitlines()]
        gaps = sorted(Stall(*map(float, line.split())) for line in lines)
        return [gap for gap in gaps if gap.ended_s > began_s and gap.began_s < ended_s]


@contextmanager
def watched() -> Generator[StallMonitor]:
    """Meanwhile every core is looked at, if that may be done.

    Raises:
        SystemExit: One of the processes that look has ended.
    """
    if not _may():
        print("standstills are not seen: no real-time priority here", file=sys.stderr)
        yield StallMonitor([])
        return
    with tempfile.TemporaryDirectory() as folder:
        cores = sorted(os.sched_getaffinity(0))
        files = [Path(folder) / f"{core}" for core in cores]
        probes = [
            subprocess.Popen([sys.executable, __file__, str(file), str(core)])
            for file, core in zip(files, cores, strict=True)
        ]
        try:
            while not all(file.exists() for file in files):
                _demand_all(probes)
                time.sleep(0.05)
            yield StallMonitor(files)
            _demand_all(probes)
        finally:
            for probe in probes:
                probe.kill()
                probe.wait()


def _may() -> bool:
    """Whether a process of ours may have real-time priority."""
    words = [
        "-c",
        f"import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({PRIORITY}))",
    ]
    return not subprocess.run([sys.executable, *words], capture_output=True).returncode


def _demand_all(probes: list[subprocess.Popen[bytes]]) -> None:
    if any(probe.poll() is not None for probe in probes):
        raise SystemExit("a process that looks for standstills has ended")


def main(file: Path, core: int) -> None:
    """One core's process, until it is killed."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    with file.open("w", buffering=1) as lines:
        before_s = time.monotonic()
        while True:
            time.sleep(PERIOD_S)
            now_s = time.monotonic()
            if now_s - before_s - PERIOD_S > LEAST_S:
                lines.write(f"{before_s} {now_s}\n")
            before_s = now_s


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
