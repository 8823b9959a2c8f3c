"""A handle of another process that is safe against reused pids: Linux's pidfd."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path

from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.watchdog.assessment import ProcessState

_STOPPED = ("T", "t")


class ProcessHandle:
    """A process that lives now.

    The system can reuse the pid of an ended process. Signals through the handle only reach the
    process that it was opened for.

    Args:
        pid: Process id.

    Raises:
        DeviceError: There is no such process, or the system has no pidfd.
    """

    def __init__(self, pid: int) -> None:
        require_pidfd()
        try:
            self._handle = os.pidfd_open(pid)
        except OSError as error:
            raise DeviceError(f"process {pid} cannot be watched: {error.strerror}") from error
        self._stat, self._ended = Path(f"/proc/{pid}/stat"), select.poll()
        self._ended.register(self._handle, select.POLLIN)

    def state(self) -> ProcessState:
        """Return the state of the process."""
        if self.wait(0.0):
            return ProcessState.GONE
        # Without /proc, or just after its end, the heartbeats decide.
        with contextlib.suppress(OSError, IndexError):
            if self._stat.read_text().rpartition(")")[2].split()[0] in _STOPPED:
                return ProcessState.STOPPED
        return ProcessState.RUNS

    def wait(self, seconds: float) -> bool:
        """Wait until the process ends or the time is over; return whether it has ended."""
        return bool(self._ended.poll(1e3 * seconds))

    def kill(self, patience_s: float) -> bool:
        """Kill the process, wait at most ``patience_s``, and return whether it has ended.

        On a busy machine, or if the kernel is blocked, it ends later. In any case none of its own
        code runs after the signal.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        return self.wait(patience_s)


WITHOUT = "watchdog.enabled=false does without it"


def require_pidfd() -> None:
    """Refuse a system without pidfd.

    Raises:
        DeviceError: There is no pidfd.
    """
    if not hasattr(os, "pidfd_open"):
        raise DeviceError("the watchdog needs Linux 5.3 or later", hint=WITHOUT)
