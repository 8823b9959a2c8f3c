"""Progress display of a benchmark session: a line per running cell, and one in total."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from robo_rl.train.checkpoint.progress import StatusConsole

_PLAIN_EVERY_S = 60.0


class ProgressDisplay:
    """Live lines on a terminal; otherwise a line at the start and end of a cell, and one a minute.

    Use it as a context manager.

    Args:
        console: Console to write to; standard error by default.
        clock: Monotonic clock in s.
    """

    def __init__(
        self, *, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or StatusConsole()
        self._clock, self._printed = clock, clock()
        self._live: Live | None = None

    def __enter__(self) -> ProgressDisplay:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def print_line(self, line: str) -> None:
        """Print a permanent line."""
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def update(self, running: Sequence[tuple[str, str]], total: str) -> None:
        """Show the current state.

        Args:
            running: Label and last output line of each running cell.
            total: Overall progress.
        """
        lines = [f"{label}: {line}" for label, line in running]
        if self._live is not None:
            kept = [Text(line, no_wrap=True, overflow="ellipsis") for line in (*lines, total)]
            self._live.update(Group(*kept), refresh=True)
        elif self._clock() - self._printed >= _PLAIN_EVERY_S:
            self._printed = self._clock()
            for line in (*lines, total):
                self.print_line(line)
