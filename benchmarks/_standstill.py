"""Detects stalls of the machine itself, which distort timings on a virtual machine.

On every core a process sleeps for 2 ms at a time and reads the clock, at real-time priority, so
that no other program can delay it. An excess of more than ``LEAST_S`` means that the whole core was
stalled: by the host of a virtual machine, or by the kernel. Where the system does not permit this
priority, nothing is monitored and nothing is excused.

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

from robo_rl_sim2real.core.clock import boot_s

PERIOD_S = 0.002
LEAST_S = 0.005
"""Shortest stall: a quarter of the shortest control period in these benchmarks."""
PRIORITY = 90


class Stall(NamedTuple):
    """Begin and end of a core's stall, in s on the clock of nodes (``boot_s``)."""

    began_s: float
    ended_s: float

    @property
    def long_s(self) -> float:
        """Return the duration in s."""
        return self.ended_s - self.began_s


class StallMonitor:
    """The observed stalls.

    Args:
        files: Files that the monitoring processes write, one per core; empty without monitoring.
    """

    def __init__(self, files: list[Path]) -> None:
        self._files = files

    @property
    def seen(self) -> bool:
        """Return whether the cores are monitored."""
        return bool(self._files)

    def between(self, began_s: float, ended_s: float) -> list[Stall]:
        """Wait for the end of a time interval; return the stalls that overlap it, in order."""
        time.sleep(max(ended_s - boot_s(), 0.0) + 5.0 * PERIOD_S)  # until it is written
        lines = [line for file in self._files for line in file.read_text().splitlines()]
        gaps = sorted(Stall(*map(float, line.split())) for line in lines)
        return [gap for gap in gaps if gap.ended_s > began_s and gap.began_s < ended_s]


@contextmanager
def watched() -> Generator[StallMonitor]:
    """Monitor every core within the block, if the system permits it.

    Raises:
        SystemExit: A monitoring process has ended.
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
    """Return whether this process may start processes with real-time priority."""
    words = [
        "-c",
        f"import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param({PRIORITY}))",
    ]
    return not subprocess.run([sys.executable, *words], capture_output=True).returncode


def _demand_all(probes: list[subprocess.Popen[bytes]]) -> None:
    if any(probe.poll() is not None for probe in probes):
        raise SystemExit("a process that looks for standstills has ended")


def main(file: Path, core: int) -> None:
    """Monitor one core until killed."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    with file.open("w", buffering=1) as lines:
        before_s = boot_s()
        while True:
            time.sleep(PERIOD_S)
            now_s = boot_s()
            if now_s - before_s - PERIOD_S > LEAST_S:
                lines.write(f"{before_s} {now_s}\n")
            before_s = now_s


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
