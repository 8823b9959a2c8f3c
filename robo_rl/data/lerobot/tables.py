"""Rows of tables as arrays, checked.

Shapes: L rows of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.columns.feature import Feature
from robo_rl.data.lerobot.parquet import listed

CLOCK_TOLERANCE_S = 1e-3
"""Largest distance of a row's time from that of its number; LeRobot's own is 1e-4 s in float32."""

_KINDS = "biuf"
"""Types of numbers: booleans, integers, floats."""


def episode_rows(table: Any, number: int, length: int, file: Path) -> Any:
    """Return the rows of an episode of a table.

    Raises:
        DataError: There are more or fewer than ``length``, they are not in order, or their indices
            are no numbers.
    """
    import pyarrow as pa

    rows = table.filter(pa.array(_column(table, "episode_index", file) == number))
    frames = _column(rows, "frame_index", file)
    if len(rows) != length or not np.array_equal(frames, np.arange(length)):
        raise DataError(
            f"rows of episode {number}",
            where=file,
            expected=f"{length} rows, frame_index 0 to {length - 1}",
            found=f"{len(rows)} rows",
        )
    return rows


def check_clock(rows: Any, fps: float, file: Path) -> None:
    """Check that a row's time is its number over the rate.

    Raises:
        DataError: It is not, or it is no number.
    """
    seconds = _column(rows, "timestamp", file).astype(np.float64)
    late = np.abs(seconds - np.arange(len(seconds)) / fps)
    if not late.max(initial=0.0) <= CLOCK_TOLERANCE_S:
        row = int(np.nanargmax(np.where(np.isnan(late), np.inf, late)))
        raise DataError(
            "timestamp does not fit the rate",
            where=f"{file} row {row}",
            expected=f"{row / fps:.4f} s at {fps:g} rows a second",
            found=f"{seconds[row]:.4f} s",
        )


def numbers(rows: Any, key: str, feature: Feature, file: Path) -> NDArray[Any]:
    """Return a column as (L, *shape), finite.

    Raises:
        DataError: A row has another number of elements, or a value is not finite or no number.
    """
    flat, uniform = _flat(rows[key].combine_chunks())
    values = flat.to_numpy(zero_copy_only=False)
    _demand_numbers(values, key, file)
    if len(values) != len(rows) * feature.size or not uniform:
        raise DataError(
            f"'{key}' does not fit its shape",
            where=file,
            expected=f"{len(rows)} rows of {list(feature.shape)}",
            found=f"{len(values)} values{'' if uniform else ', in lists of different lengths'}",
        )
    values = values.reshape(len(rows), *feature.shape)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values.reshape(len(rows), -1)).all(axis=1))[0])
        raise DataError(f"'{key}' is not finite", where=f"{file} row {row}")
    return values


def _column(table: Any, key: str, file: Path) -> NDArray[Any]:
    """Return a column of single numbers."""
    values = table[key].to_numpy()
    _demand_numbers(values, key, file)
    return values


def _demand_numbers(values: NDArray[Any], key: str, file: Path) -> None:
    if values.dtype.kind not in _KINDS:
        found = f"values of type {values.dtype}"
        raise DataError(f"'{key}' holds no numbers", where=file, expected="numbers", found=found)


def pictures(rows: Any, key: str, file: Path) -> Iterator[bytes]:
    """Yield the encoded images of a column, in order.

    Raises:
        DataError: A row has none, or its text is damaged.
    """
    for number in range(len(rows)):
        (each,) = listed(rows[key].slice(number, 1), file)
        if not isinstance(each, dict) or not isinstance(each.get("bytes"), bytes):
            raise DataError(f"'{key}' holds no image", where=f"{file} row {number}")
        yield each["bytes"]


def _flat(column: Any) -> tuple[Any, bool]:
    """Return the elements of nested lists, in order; and whether all lists are of one length."""
    import pyarrow as pa

    pc: Any = import_module("pyarrow.compute")  # its functions are made at import
    column, uniform = column.storage if isinstance(column, pa.ExtensionArray) else column, True
    while pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        ends = pc.min_max(pc.list_value_length(column))
        uniform &= ends["min"] == ends["max"]
        column = column.flatten()
    return column, uniform
