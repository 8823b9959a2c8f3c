"""The simulated robot in a process of its own, for the duration of a context."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager


@contextmanager
def simulated_robot(words: Sequence[str]) -> Generator[None]:
    """Run ``robo-rl sim-robot`` with these arguments; it ends with the context."""
    robot = subprocess.Popen([sys.executable, "-m", "robo_rl", "sim-robot", *words])
    try:
        yield
    finally:
        robot.send_signal(signal.SIGINT)
        robot.wait()
