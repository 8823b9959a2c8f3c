"""Another process, held by a handle that never means another one: Linux's pidfd."""

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

    A number is given to another process once its own is gone; what is killed by the handle is the
    one that it was opened for, or nothing.

    Args:
        pid: Its number.

    Raises:
        DeviceError: There is no such process, or this system has no such handles.
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
        """How it is with it."""
        if self.wait(0.0):
            return ProcessState.GONE
        # Without /proc, or where it ended just now: the beats tell.
        with contextlib.suppress(OSError, IndexError):
            if self._stat.read_text().rpartition(")")[2].split()[0] in _STOPPED:
                return ProcessState.STOPPED
        return ProcessState.RUNS

    def wait(self, seconds: float) -> bool:
        """Whether it ended, by then at the latest."""
        return bool(self._ended.poll(1e3 * seconds))

    def kill(self, patience_s: float) -> bool:
        """End it now, and wait for that so long; whether it has ended.

        On a busy machine, or if the kernel holds it up, that comes later. None of its own code is
        run any more in any case, so that it does nothing of what it was about to do.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        return self.wait(patience_s)


WITHOUT = "watchdog.enabled=false does without it"


def require_pidfd() -> None:
    """Refuse a system that has none.

    Raises:
        DeviceError: It has none.
    """
    if not hasattr(os, "pidfd_open"):
        raise DeviceError("the watchdog needs Linux 5.3 or later", hint=WITHOUT)
