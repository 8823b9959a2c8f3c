"""What a running stage writes down: ``metrics.jsonl``.

A metrics file holds one JSON object a line, its ``step`` never falling; a resumed stage cuts it
back to its checkpoint first, so no step is in it twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, SupportsFloat, cast

from robo_rl.core.atomic_files import append_file, truncate_file
from robo_rl.core.errors import CheckpointError, DataError


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
