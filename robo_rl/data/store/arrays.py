"""Arrays of a store: Zarr 3, chunked over rows, with zstd and crc32c on every chunk.

A chunk is one file beside the array's ``zarr.json`` (``c.<chunk>.0…``). One flush of one directory
thus makes all new chunks durable.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.storage import MemoryStore

from robo_rl.core.atomic_files import overwrite_file, remove_temporary, sync, write_file
from robo_rl.core.checksummed_json import seal
from robo_rl.core.errors import DataError
from robo_rl.core.spec import TensorSpec
from robo_rl.data.store.schema import (
    METADATA_FILE,
    REPAIR_HINT,
    StoreSchema,
    array_path,
    read_metadata,
)
from robo_rl.data.store.zstd_frame import content_bytes

_CRC_BYTES = 4


class RowArray:
    """One array of a store, checked against its spec.

    Args:
        root: Directory of the store.
        key: ``obs.<name>``, ``act`` … as in ``StoreSchema.arrays``.
        schema: Schema of the store.

    Raises:
        DataError: The array is missing, damaged, or differs from the schema.
    """

    def __init__(self, root: Path, key: str, schema: StoreSchema) -> None:
        self.key, self.spec = key, schema.arrays[key]
        self.path = array_path(root, key)
        self.chunk_rows = schema.chunk_rows
        _refuse_escape(root, self.path)
        self._metadata = _metadata(self.spec, self.chunk_rows)
        self.rows, self._array = 0, None
        self.refresh()

    def refresh(self) -> None:
        """Read the number of rows again.

        Raises:
            DataError: The metadata are damaged, or differ from the schema.
        """
        rows = _checked_rows(self, read_metadata(self.path / METADATA_FILE), self._metadata)
        if rows != self.rows:
            self.rows, self._array = rows, None

    def chunk_file(self, chunk: int) -> Path:
        """Return the file of the rows from ``chunk * chunk_rows`` on."""
        return self.path / ".".join(["c", str(chunk), *["0"] * len(self.spec.shape)])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows start … stop-1, with all their chunks checked.

        Raises:
            DataError: A chunk is missing or damaged; the message names it.
        """
        chunks = range(start // self.chunk_rows, -(-stop // self.chunk_rows))
        self._demand_files(chunks)
        try:
            return np.asarray(self._open()[start:stop])
        except Exception as error:  # codecs raise arbitrary errors on damaged bytes
            for chunk in chunks:
                if problem := self.check_chunk(chunk):
                    raise self._damaged(chunk, problem) from None
            raise DataError(
                f"unreadable rows {start}–{stop - 1}: {error}", where=self.path
            ) from error

    def write(self, start: int, rows: NDArray[Any]) -> None:
        """Write whole chunks from row ``start`` on and grow the array; durable on return.

        Zarr encodes the chunks in memory, and this method writes the files. After an error, Zarr's
        own writer may still write other chunks later, onto other episodes.

        Raises:
            OSError: The disk is full, or another write error.
        """
        if start + len(rows) > self.rows:
            self._grow(start + len(rows))
        encoded: dict[str, Any] = {}
        _create(self.spec, self.chunk_rows, len(rows), encoded)[:] = rows
        for chunk in range(len(rows) // self.chunk_rows):
            data = encoded[self.chunk_file(chunk).name].to_bytes()
            overwrite_file(self.chunk_file(start // self.chunk_rows + chunk), data)
        sync([self.path])

    def check_chunk(self, chunk: int) -> str | None:
        """Return the problem of a chunk file as a clause, or None."""
        file = self.chunk_file(chunk)
        if file.is_symlink() or not file.is_file():
            return "is missing"
        try:
            data = file.read_bytes()
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        crc = google_crc32c.value(data[:-_CRC_BYTES])
        if len(data) <= _CRC_BYTES or crc != int.from_bytes(data[-_CRC_BYTES:], "little"):
            return f"fails its crc32c ({len(data)} bytes)"
        if (size := self._content_bytes(chunk)) != self._chunk_bytes:
            found = "an unknown number of" if size is None else size
            return f"decompresses to {found} bytes instead of {self._chunk_bytes}"
        return None

    def count_chunk_files(self) -> int:
        """Return the number of chunk files, committed or not."""
        with os.scandir(self.path) as entries:
            return sum(entry.name.startswith("c.") for entry in entries)

    def sweep(self) -> None:
        """Remove temporary files of killed writers; the caller must hold the lock."""
        remove_temporary(self.path)

    def _demand_files(self, chunks: range) -> None:
        # Zarr reads a missing chunk silently as zeros, and decodes a chunk to any size.
        for chunk in chunks:
            if self._content_bytes(chunk) != self._chunk_bytes:
                raise self._damaged(chunk, self.check_chunk(chunk) or "changes while it is read")

    @property
    def _chunk_bytes(self) -> int:
        return self.chunk_rows * self.spec.num_bytes

    def _content_bytes(self, chunk: int) -> int | None:
        """Return the size that a chunk decompresses to; None if it is unknown."""
        file = self.chunk_file(chunk)
        try:
            return content_bytes(file, _CRC_BYTES) if file.is_file() else None
        except OSError:
            return None

    def _damaged(self, chunk: int, problem: str) -> DataError:
        return DataError(
            f"chunk {problem}",
            where=self.chunk_file(chunk),
            expected=f"rows {chunk * self.chunk_rows} and on of array '{self.key}'",
            hint=REPAIR_HINT,
        )

    def _grow(self, rows: int) -> None:
        # zarr's own resize renames without flushing; a power cut could leave an empty file
        write_metadata(self.path, _with_rows(self._metadata, rows))
        self.rows, self._array = rows, None

    def _open(self) -> Any:
        if self._array is None:
            self._array = zarr.open_array(self.path, mode="r")
        return self._array


def create_array(root: Path, key: str, schema: StoreSchema, rows: int = 0) -> None:
    """Write the metadata of an array; existing chunks are unchanged."""
    path = array_path(root, key)
    path.mkdir(parents=True, exist_ok=True)
    write_metadata(path, _with_rows(_metadata(schema.arrays[key], schema.chunk_rows), rows))


def write_metadata(path: Path, doc: dict[str, Any]) -> None:
    """Write a sealed ``zarr.json`` into a directory, durably."""
    write_file(path / METADATA_FILE, seal(doc, within="attributes", indent=1))


def group_metadata(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the ``zarr.json`` of a group."""
    return {"attributes": attributes, "zarr_format": 3, "node_type": "group"}


def _metadata(spec: TensorSpec, chunk_rows: int) -> dict[str, Any]:
    """Return the ``zarr.json`` of an array without rows, as Zarr writes it."""
    return json.loads(json.dumps(_create(spec, chunk_rows, 0, {}).metadata.to_dict()))


def _create(spec: TensorSpec, chunk_rows: int, rows: int, store: dict[str, Any]) -> Any:
    """Create an array in memory with its chunks in ``store``."""
    return zarr.create_array(
        MemoryStore(store),
        shape=(rows, *spec.shape),
        chunks=(chunk_rows, *spec.shape),
        dtype=spec.dtype,
        compressors=[ZstdCodec(level=1), Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": "."},
        zarr_format=3,
        # a chunk of zeros is written too, so that a missing file always means damage
        config={"write_empty_chunks": True},
    )


def _with_rows(metadata: dict[str, Any], rows: int) -> dict[str, Any]:
    return {**metadata, "shape": [rows, *metadata["shape"][1:]]}


def _checked_rows(array: RowArray, found: dict[str, Any], expected: dict[str, Any]) -> int:
    shape = found.get("shape")
    if not isinstance(shape, list) or shape[1:] != expected["shape"][1:]:
        raise _mismatch(array, "shape", ("rows", *array.spec.shape), shape)
    for field in expected.keys() - {"shape", "attributes"}:
        if found.get(field) != expected[field]:
            raise _mismatch(array, field, expected[field], found.get(field))
    rows = shape[0]
    if not isinstance(rows, int) or rows < 0 or rows % array.chunk_rows:
        raise _mismatch(array, "rows", f"a multiple of {array.chunk_rows}", rows)
    return rows


def _mismatch(array: RowArray, field: str, expected: object, found: object) -> DataError:
    return DataError(
        f"array '{array.key}' does not fit the schema of the store: {field} differs",
        where=array.path / METADATA_FILE,
        expected=expected,
        found=found,
        hint=REPAIR_HINT,
    )


def _refuse_escape(root: Path, path: Path) -> None:
    if not path.is_dir():
        raise DataError("array is missing", where=path, expected="a directory", hint=REPAIR_HINT)
    if not path.resolve().is_relative_to(root.resolve()):
        raise DataError(
            "array lies outside of the store", where=path, expected=root, found=path.resolve()
        )
