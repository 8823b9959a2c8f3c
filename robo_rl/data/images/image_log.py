"""Rows of images in files that only grow.

No row is overwritten, so the rows of a checkpoint stay as they were until no kept checkpoint needs
them. A checkpoint stores the number of rows and the digests of the files, and no image.

Shapes: n rows; a record is the images of one row, as bytes.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robo_rl.core.atomic_files import make_directory, sync
from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.core.stateful import KEPT_CHECKPOINTS

FILE_BYTES = 128 << 20
_ROWS_AT_ONCE = 256
_KEPT_STATES = KEPT_CHECKPOINTS + 1
"""States whose files are kept: the checkpoints of a series, and the one that is being written."""


class ImageLog:
    """Images (n, …) uint8 by name, appended to files and read by row number.

    Args:
        folder: Folder of the files ``NUMBER.images``.
        what: What the images belong to, for errors.
        file_bytes: Approximate size of a file.
    """

    def __init__(self, folder: Path, what: str, file_bytes: int = FILE_BYTES) -> None:
        self.folder, self._what = Path(folder), what
        self._file_bytes, self.rows = file_bytes, 0
        self._shapes = dict[str, tuple[int, ...]]()
        self._hashes = dict[int, Any]()
        self._mapped = dict[int, NDArray[np.uint8]]()
        self._unsynced = set[int]()
        self._needed = deque[set[int]](maxlen=_KEPT_STATES)

    def append(self, images: Mapping[str, Tensor]) -> Tensor:
        """Write rows and return their numbers (n,).

        Raises:
            DataError: They cannot be written, or names or shapes differ from those of earlier rows.
        """
        self.check(images)
        self._shapes = self._shapes or _shapes(images)
        flat = [images[name].cpu().flatten(1) for name in self._shapes]
        records = torch.cat(flat, dim=1).numpy()
        begin = self.rows
        while len(records):
            index, row = divmod(self.rows, self._rows_per_file)
            fitting, records = np.split(records, [self._rows_per_file - row])
            self._write(index, row, fitting)
            self.rows += len(fitting)
        return torch.arange(begin, self.rows)

    def read(self, numbers: Tensor) -> dict[str, Tensor]:
        """Return the images (n, …) of rows (n,), on the CPU."""
        numbers = numbers.cpu()
        file, row = numbers // self._rows_per_file, numbers % self._rows_per_file
        records = torch.empty(len(numbers), self._record_bytes, dtype=torch.uint8)
        for index in file.unique().tolist():
            mine = file == index
            records[mine] = torch.from_numpy(self._map(index)[row[mine].numpy()])
        parts = records.split([math.prod(shape) for shape in self._shapes.values()], dim=1)
        named = zip(self._shapes.items(), parts, strict=True)
        return {name: part.reshape(len(numbers), *shape) for (name, shape), part in named}

    def check(self, images: Mapping[str, Tensor]) -> None:
        """Check that rows fit the rows before.

        Raises:
            DataError: Names, shapes or types differ.
        """
        found = _shapes(images)
        if found != (self._shapes or found) or any(x.dtype != torch.uint8 for x in images.values()):
            raise DataError(
                "images of new rows differ from those of the rows before",
                expected=f"{self._shapes or found}, uint8",
                found={name: f"{each.dtype} {found[name]}" for name, each in images.items()},
                hint="demonstrations and env must agree in observations",
            )

    def digest(self, numbers: Tensor) -> str:
        """Return the SHA-256 of rows (n,)."""
        content = hashlib.sha256(str(sorted(self._shapes.items())).encode())
        for some in numbers.split(_ROWS_AT_ONCE):
            for image in self.read(some).values():
                content.update(image.contiguous().numpy().data)
        return content.hexdigest()

    def state_dict(self, needed: Tensor) -> dict[str, Any]:
        """Make the rows (n,) durable and return what finds them again; call once per checkpoint.

        Files that neither this state nor one of the few before it needs are deleted.
        """
        if not self.rows:
            return {"rows": 0, "shapes": {}, "files": {}, "file_bytes": self._file_bytes}
        files = set((needed.cpu() // self._rows_per_file).unique().tolist())
        self._needed.append(files)
        sync([*(self._path(index) for index in sorted(files & self._unsynced)), self.folder])
        self._unsynced -= files
        self._delete_unneeded()
        digests = {str(index): self._hashes[index].hexdigest() for index in sorted(files)}
        shapes = {name: list(shape) for name, shape in self._shapes.items()}
        size = {"rows": self.rows, "file_bytes": self._file_bytes}
        return {**size, "shapes": shapes, "files": digests}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; rows after it are written again.

        Raises:
            CheckpointError: A file is missing, or its rows are not those that were saved.
        """
        self._shapes = {name: tuple(shape) for name, shape in state["shapes"].items()}
        self.rows, self._file_bytes = state["rows"], state["file_bytes"]
        self._hashes.clear()
        self._mapped.clear()
        for index, digest in state["files"].items():
            self._verify(int(index), digest)

    @property
    def _record_bytes(self) -> int:
        return sum(map(math.prod, self._shapes.values()))

    @property
    def _rows_per_file(self) -> int:
        return max(1, self._file_bytes // self._record_bytes)

    def _path(self, index: int) -> Path:
        return self.folder / f"{index:06d}.images"

    def _write(self, index: int, row: int, records: NDArray[np.uint8]) -> None:
        """Write records from a row of a file on, and count them in its digest."""
        path, data = self._path(index), np.ascontiguousarray(records).data.cast("B")
        try:
            make_directory(self.folder)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            try:
                os.ftruncate(descriptor, self._rows_per_file * self._record_bytes)
                _write_at(descriptor, data, row * self._record_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DataError(
                f"images of {self._what} cannot be written",
                where=path,
                found=error.strerror,
                hint="free disk space; the same command resumes",
            ) from error
        self._unsynced.add(index)
        if row == 0:
            self._hashes[index] = hashlib.sha256()
        self._hashes[index].update(data)

    def _map(self, index: int) -> NDArray[np.uint8]:
        """Return a file as records (rows, bytes), read from disk as needed."""
        if index not in self._mapped:
            shape = self._rows_per_file, self._record_bytes
            self._mapped[index] = np.memmap(self._path(index), np.uint8, "r", shape=shape)
        return self._mapped[index]

    def _verify(self, index: int, digest: str) -> None:
        """Check the rows that a file had when its digest was taken."""
        rows = min(self.rows - index * self._rows_per_file, self._rows_per_file)
        try:
            self._hashes[index] = hashlib.sha256(self._map(index)[:rows].data)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"images of {self._what} cannot be read: {error}",
                where=self._path(index),
                hint=_AGAIN,
            ) from None
        if self._hashes[index].hexdigest() != digest:
            raise CheckpointError(
                f"images of {self._what} are damaged: their SHA-256 is not the one saved",
                where=self._path(index),
                hint=_AGAIN,
            )

    def _delete_unneeded(self) -> None:
        if len(self._needed) < _KEPT_STATES:  # an older checkpoint may need any file
            return
        needed, current = set.union(*self._needed), self.rows // self._rows_per_file
        for path in self.folder.glob(f"{'[0-9]' * 6}.images"):
            if (index := int(path.stem)) < current and index not in needed:
                self._mapped.pop(index, None)
                self._hashes.pop(index, None)
                self._unsynced.discard(index)
                path.unlink(missing_ok=True)


_AGAIN = "copy the file back, or start the stage from its beginning"


def _shapes(images: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(each.shape[1:]) for name, each in sorted(images.items())}


def _write_at(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
