"""Progress line of a running stage: count, rate and time left."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

_PLAIN_EVERY_S = 10.0
_BAR_CHARS = 24
_GONE = (errno.EPIPE, errno.EIO, errno.EBADF)
"""Errors of an output that nothing will read again: a pipe's end, a terminal, a closed file."""


class StatusConsole(Console):
    """A console on standard error; work goes on if nothing can be written to it.

    Its reader may end first, as ``tee`` does at Ctrl-C: the process then writes nothing more to
    standard error. A full disk costs the lines that it refuses.

    Args:
        quiet: Whether to print nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(stderr=True, quiet=quiet)

    def on_broken_pipe(self) -> None:
        """Print nothing more, where rich would end the process."""
        self._silence()

    def __exit__(self, *error: Any) -> None:
        """Write what was printed, also by a live line; a lost terminal or a full disk refuse it."""
        try:
            super().__exit__(*error)
        except OSError as refused:
            del self._buffer[:]  # rich would write the line again with the next one
            if refused.errno in _GONE:
                self._silence()

    def _silence(self) -> None:
        self.quiet = True
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), self.file.fileno())  # what is buffered has no reader either


class Progress:
    """A live line on a terminal; otherwise a plain line every ten seconds and one at the end.

    Use it as a context manager. Rate and time left count from the first ``update``, so a resumed
    stage does not count earlier work.

    Args:
        total: Number of units to be done.
        label: Label of the line.
        unit: Name of the units, in the plural.
        console: Console to write to; standard error by default.
        clock: Monotonic clock in s.
    """

    def __init__(
        self,
        total: int,
        label: str,
        unit: str = "steps",
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._label, self._unit = total, label, unit
        self._console = console or StatusConsole()
        self._clock = clock
        self._begun = self._printed = clock()
        self._first: tuple[int, float] | None = None
        self._done, self._shown = 0, dict[str, float]()
        self._live: Live | None = None
        self._ended = ""

    def __enter__(self) -> Progress:
        self._begun = self._printed = self._clock()
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._live_line, refresh_per_second=4
            )
            self._live.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        took = duration(self._clock() - self._begun)
        self._ended = f"{'in' if error is None else 'stopped after'} {took}"
        if self._live is None:
            self._print()
        else:
            self._live.stop()

    def update(self, done: int, total: int | None = None, /, **shown: float) -> None:
        """Set the number of finished units and show numbers beside it.

        Args:
            done: Number of finished units.
            total: New total; None keeps the old one.
            shown: Number by name.
        """
        self._done, self._total = done, self._total if total is None else total
        self._shown.update(shown)
        now = self._clock()
        self._first = self._first or (done, now)
        if self._live is None and now - self._printed >= _PLAIN_EVERY_S:
            self._printed = now
            self._print()

    def _print(self) -> None:
        line = f"{self._label}: {self._text()}"
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _live_line(self) -> Text:
        share = min(1.0, self._done / max(1, self._total))
        bar = "━" * round(_BAR_CHARS * share)
        return Text.assemble(
            (f"{self._label} ", "bold"),
            (bar, "green"),
            ("━" * (_BAR_CHARS - len(bar)), "dim"),
            f" {self._text()}",
            no_wrap=True,
            overflow="ellipsis",
        )

    def _text(self) -> str:
        count = f"{self._done:,}/{self._total:,} {self._unit}"
        known = {name: value for name, value in self._shown.items() if value == value}
        numbers = [f"{name} {_number(value)}" for name, value in known.items()]
        pace = [self._ended] if self._ended else self._pace()
        return " · ".join([count, *pace, *numbers])

    def _pace(self) -> list[str]:
        """Return rate and time left, as far as they are known."""
        if self._first is None or self._done <= self._first[0]:
            return []
        elapsed = max(1e-9, self._clock() - self._first[1])
        rate = (self._done - self._first[0]) / elapsed
        speed = f"{rate:,.3g}/s" if rate < 1000 else f"{rate:,.0f}/s"
        left = duration((self._total - self._done) / rate)
        return [speed if rate >= 1 else f"{1 / rate:.3g} s each", f"{left} left"]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def running_mean(mean: float, value: float) -> float:
    """Return a running mean over about fifty values, for display; NaN before the first."""
    return value if mean != mean else 0.98 * mean + 0.02 * value


def duration(seconds: float) -> str:
    """Format seconds for a reader: ``12 s``, ``35 min``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
