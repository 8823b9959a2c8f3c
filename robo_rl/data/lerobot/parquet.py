"""Columns of Parquet files, read as memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robo_rl.core.errors import DataError, DeviceError
from robo_rl.core.memory import demand_memory
from robo_rl.data.lerobot.info import AGAIN

_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
"""Types of texts and images in a file."""

_PART_BYTES, _PART_ROWS = 64 << 20, 1024
"""Size and rows of what is read at once, where a value has no fixed size."""

_SMALLER_FILES = "split the dataset into smaller files"


def read_table(file: Path, columns: Sequence[str], most_rows: int) -> Any:
    """Read columns of a Parquet file as a ``pyarrow.Table``.

    Args:
        file: The file.
        columns: Names of the columns.
        most_rows: Rows of the whole dataset. A file of few bytes can hold any number of equal rows.

    Raises:
        DataError: The file is missing or damaged, lacks a column, or has too many rows.
        DeviceError: pyarrow is not installed, or the columns do not fit the memory.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        hint = "pip install 'robo-rl[lerobot]'"
        raise DeviceError("LeRobot datasets need pyarrow and av", hint=hint) from None
    try:
        with pq.ParquetFile(file) as parquet:
            missing = sorted(set(columns) - set(parquet.schema_arrow.names))
            if missing:
                raise DataError("columns are missing", where=file, found=", ".join(missing))
            _demand_size(parquet.metadata, set(columns), most_rows, file)
            return _read(parquet, list(columns), file)
    except FileNotFoundError:
        raise DataError("file is missing", where=file) from None
    except (OSError, ValueError, pa.ArrowException) as error:  # a name may be no UTF-8
        first_line = str(error).partition("\n")[0]
        raise DataError(f"unreadable: {first_line}", where=file, hint=AGAIN) from None


def read_rows(file: Path, columns: Sequence[str], most_rows: int) -> list[dict[str, Any]]:
    """Read columns of a Parquet file as rows; see ``read_table``.

    Raises:
        DataError: As ``read_table``, or a text is damaged.
        DeviceError: As ``read_table``.
    """
    return listed(read_table(file, columns, most_rows), file)


def listed(values: Any, file: Path) -> list[Any]:
    """Return the values of a table or column.

    Raises:
        DataError: A text is damaged.
    """
    try:
        return values.to_pylist()
    except ValueError as error:  # a text is no UTF-8
        raise DataError(f"unreadable: {error}", where=file, hint=AGAIN) from None


def _read(parquet: Any, columns: list[str], file: Path) -> Any:
    """Return columns of an open file; texts and images in parts, as memory allows.

    Equal values are in the file once, so that its end does not say how much memory they need.
    """
    import pyarrow as pa

    largest = _largest_value(parquet.metadata, set(columns))
    if not largest:
        return parquet.read(columns=columns)
    batches = list[Any]()
    rows = max(1, min(_PART_ROWS, _PART_BYTES // largest))
    for batch in parquet.iter_batches(batch_size=rows, columns=columns):
        demand_memory(batch.nbytes, str(file), _SMALLER_FILES)
        batches.append(batch)
    if not batches:
        return parquet.read(columns=columns)
    return pa.Table.from_batches(batches).select(columns)


def _largest_value(metadata: Any, columns: set[str]) -> int:
    """Return a bound of the bytes of one text or image of some columns; 0 if there are none."""
    parts = _parts(metadata, columns)
    return max((p.total_uncompressed_size for p in parts if p.physical_type in _BYTES), default=0)


def _parts(metadata: Any, columns: set[str]) -> list[Any]:
    """Return what the end of a file says of its parts of some columns."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    parts = [group.column(i) for group in groups for i in range(group.num_columns)]
    return [part for part in parts if _is_within(part.path_in_schema, columns)]


def _demand_size(metadata: Any, columns: set[str], most_rows: int, file: Path) -> None:
    """Check the numbers of rows and values that the end of a file says, before they are read."""
    if metadata.num_rows > most_rows:
        found = f"{metadata.num_rows} rows"
        raise DataError(
            "more rows than meta/info.json says", where=file, expected=most_rows, found=found
        )
    parts = _parts(metadata, columns)
    needed = sum(max(8 * part.num_values, part.total_uncompressed_size) for part in parts)
    demand_memory(needed, str(file), _SMALLER_FILES)


def _is_within(path: str, columns: set[str]) -> bool:
    """Return whether a path is a column, or a part of one; names of columns hold dots."""
    return any(path == column or path.startswith(f"{column}.") for column in columns)
