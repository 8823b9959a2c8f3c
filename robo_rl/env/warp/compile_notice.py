"""A one-line notice while Warp compiles its kernels, with the elapsed time.

Compiled kernels are stored in Warp's cache, ``WARP_CACHE_PATH`` or the user's cache folder, so that
only the first run of a version and kind of scene waits for them.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import warp as wp

_PERIOD_S = 0.5


@contextmanager
def announce_compilation(what: str, out: TextIO | None = None) -> Generator[None]:
    """Print one line to out (standard error) if kernels are being compiled within the block.

    On a terminal the line updates with time and number of kernels; a file gets the totals at the
    end.
    """
    line = _Line(what, out or sys.stderr)
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(line, over), daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()
        line.end()


def _watch(line: _Line, over: threading.Event) -> None:
    while not over.wait(_PERIOD_S):
        line.update()


class _Line:
    """The notice's line; silent until a new kernel appears in the cache."""

    def __init__(self, what: str, out: TextIO) -> None:
        self._what, self._out, self._begun = what, out, time.monotonic()
        self._folder = Path(str(wp.config.kernel_cache_dir or ""))
        self._before, self._said = self._count(), False

    def update(self) -> None:
        """Print the progress: continuously on a terminal, elsewhere only the beginning."""
        done = self._count() - self._before
        if done <= 0 or (self._said and not self._out.isatty()):
            return
        begin = f"{self._what}: compiling physics kernels, once (kept in {self._folder})"
        self._write(f"\r{begin}: {self._progress(done)}" if self._out.isatty() else begin)
        self._said = True

    def end(self) -> None:
        """End the line, if it was begun."""
        if self._said:
            self.update()
            done = f": {self._progress(self._count() - self._before)}"
            self._write("\n" if self._out.isatty() else done + "\n")

    def _progress(self, done: int) -> str:
        return f"{done} modules, {time.monotonic() - self._begun:.0f} s"

    def _count(self) -> int:
        """Return the number of compiled modules in the cache."""
        try:
            return sum(1 for entry in self._folder.iterdir() if entry.name.startswith("wp_"))
        except OSError:
            return 0

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
