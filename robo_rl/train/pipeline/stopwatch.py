"""Measures the duration of a stage over all sessions."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from types import TracebackType

from robo_rl.core.atomic_files import write_file


class Stopwatch:
    """Context manager that adds to the seconds of earlier sessions.

    Args:
        path: File of the seconds, in an existing directory.
        every_s: Interval between writes in s; a kill loses at most this much.
    """

    def __init__(self, path: Path, every_s: float = 2.0) -> None:
        self._path, self._every_s = path, every_s
        self._before, self._begun = _read(path), time.monotonic()
        self._over = threading.Event()
        self._writer = threading.Thread(target=self._keep_writing, daemon=True)

    @property
    def seconds(self) -> float:
        """Seconds of all sessions, including the current one."""
        return self._before + time.monotonic() - self._begun

    def __enter__(self) -> Stopwatch:
        self._begun = time.monotonic()
        self._writer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._writer.join()
        self._write()

    def _keep_writing(self) -> None:
        while not self._over.wait(self._every_s):
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # whoever saves the work reports a full disk
            write_file(self._path, f"{self.seconds:.3f}".encode())


def _read(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return 0.0
