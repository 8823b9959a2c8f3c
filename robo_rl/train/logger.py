"""What a running stage writes down and shows: ``metrics.jsonl``, and a line on how far it is.

A metrics file holds one JSON object a line, its ``step`` never falling; a resumed stage cuts it
back to its checkpoint first, so no step is in it twice.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsFloat, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text

from robo_rl.durable import append_file, truncate_file
from robo_rl.errors import CheckpointError, DataError

_PLAIN_EVERY_S = 10.0
_BAR_CHARS = 24


class MetricsLogger:
    """Appends lines to a metrics file, each on the disk before the call returns.

    Opening drops a last line that a killed process left torn.

    Args:
        path: The file; it and its directory are made where they are missing.

    Raises:
        DataError: A line that is not the last is damaged.
        CheckpointError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._step: float = -math.inf
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        self.truncate_after(math.inf)

    def log(self, metrics: Mapping[str, SupportsFloat]) -> None:
        """Append one line; numbers that are not finite are written as null.

        Args:
            metrics: Name → number, ``step`` among them.

        Raises:
            ValueError: ``step`` is missing or lower than that of the last line.
            CheckpointError: The file cannot be written; it is as it was.
        """
        step = float(metrics.get("step", math.nan))
        if not step >= self._step:
            raise ValueError(f"step {step:g} after step {self._step:g}: steps must not fall")
        line = json.dumps({name: _plain(value) for name, value in metrics.items()})
        with _writing(self.path):
            append_file(self.path, line.encode() + b"\n")
        self._step = step

    def truncate_after(self, step: float) -> None:
        """Drop all lines of later steps, so that a stage resumed at ``step`` logs none twice."""
        end, self._step = 0, -math.inf
        for line_end, metrics in _lines(self.path):
            if metrics["step"] > step:
                break
            end, self._step = line_end, metrics["step"]
        with _writing(self.path):
            truncate_file(self.path, end)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """All lines of a metrics file, null as NaN; a last line still being written is left out.

    Raises:
        DataError: A line that is not the last is damaged, or there is no such file.
    """
    return [metrics for _, metrics in _lines(path)]


class Progress:
    """One live line on a terminal; elsewhere a plain line every ten seconds, and one at the end.

    Use as a context manager. Rate and time left count from the first ``update`` on, so that a
    resumed stage does not claim work that it found done.

    Args:
        total: Number of units to be done.
        label: What is being done.
        unit: What is counted, in the plural.
        console: Where to; standard error by default, so that output can be piped.
        clock: Seconds that never run backwards.
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
        self._console = console or Console(stderr=True)
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

    def update(self, done: int, **shown: float) -> None:
        """Say that ``done`` units of the total are done, and show a few numbers beside."""
        self._done = done
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
        numbers = [f"{name} {_number(value)}" for name, value in self._shown.items()]
        pace = [self._ended] if self._ended else self._pace()
        return " · ".join([count, *pace, *numbers])

    def _pace(self) -> list[str]:
        """Rate and time left, as far as they are known."""
        if self._first is None or self._done <= self._first[0]:
            return []
        elapsed = max(1e-9, self._clock() - self._first[1])
        rate = (self._done - self._first[0]) / elapsed
        speed = f"{rate:,.3g}/s" if rate < 1000 else f"{rate:,.0f}/s"
        left = duration((self._total - self._done) / rate)
        return [speed if rate >= 1 else f"{1 / rate:.3g} s each", f"{left} left"]


@contextmanager
def _writing(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise CheckpointError(problem, where=path) from error


def _lines(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """(Offset behind the line, its metrics) of every line but a torn last one."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", where=path) from error
    end = 0
    for number, line in enumerate(lines, 1):
        metrics = _parse(line)
        if metrics is None and number < len(lines):
            raise DataError(
                "not a line of metrics",
                where=f"{path}:{number}",
                found=repr(line[:60]),
                hint="delete the line",
            )
        if metrics is not None:
            end += len(line)
            yield end, metrics


def _parse(line: bytes) -> dict[str, float] | None:
    """The metrics of a whole line, None if it is torn or damaged."""
    if not line.endswith(b"\n"):
        return None
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("step"), (int, float)):
        return None
    metrics = cast("dict[str, float | None]", found)
    return {name: math.nan if value is None else value for name, value in metrics.items()}


def _plain(value: SupportsFloat) -> float | int | None:
    if isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def smoothed(mean: float, value: float) -> float:
    """A running mean for the reader, over some fifty values; NaN before the first."""
    return value if mean != mean else 0.98 * mean + 0.02 * value


def duration(seconds: float) -> str:
    """Seconds as a reader wants them: ``12 s``, ``35 min``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
