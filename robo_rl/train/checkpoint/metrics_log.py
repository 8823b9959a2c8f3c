"""Writes and reads ``metrics.jsonl`` of a stage.

The file holds one JSON object per line, with non-decreasing ``step``. A resumed stage first
truncates the file to its checkpoint, so each step occurs once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsFloat, cast

from robo_rl.core.atomic_files import append_file, make_directory, sync, truncate_file
from robo_rl.core.errors import CheckpointError, DataError


class MetricsLogger:
    """Appends lines to a metrics file; each line is on disk before the call returns.

    Opening drops an incomplete last line of a killed process.

    Args:
        path: The file; it and its directory are created if missing.

    Raises:
        DataError: A line other than the last is damaged.
        CheckpointError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._step: float = -math.inf
        with _writing(path):
            make_directory(path.parent)
            path.touch()
            sync([path.parent])
        self.truncate_after(math.inf)

    def log(self, metrics: Mapping[str, SupportsFloat]) -> None:
        """Append one line; non-finite numbers are written as null.

        Args:
            metrics: Name → number, including ``step``.

        Raises:
            ValueError: ``step`` is missing or lower than that of the last line.
            CheckpointError: The file cannot be written; it is unchanged.
        """
        step = float(metrics.get("step", math.nan))
        if not step >= self._step:
            raise ValueError(f"step {step:g} after step {self._step:g}: steps must not fall")
        line = json.dumps({name: _plain(value) for name, value in metrics.items()})
        with _writing(self.path):
            append_file(self.path, line.encode() + b"\n")
        self._step = step

    def truncate_after(self, step: float) -> None:
        """Drop all lines after ``step``, so that a resumed stage logs no step twice."""
        end, self._step = 0, -math.inf
        for line_end, metrics in _lines(self.path):
            if metrics["step"] > step:
                break
            end, self._step = line_end, metrics["step"]
        with _writing(self.path):
            truncate_file(self.path, end)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return all lines of a metrics file, null as NaN, without an incomplete last line.

    Raises:
        DataError: A line other than the last is damaged, or the file is missing.
    """
    return [metrics for _, metrics in _lines(path)]


@contextmanager
def _writing(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise CheckpointError(problem, where=path) from error


def _lines(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield (offset after the line, its metrics) of every line except an incomplete last one."""
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
    """Return the metrics of a complete line; None if it is incomplete or damaged."""
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
