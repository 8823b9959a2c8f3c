"""A row table whose images are in files: larger than memory, and out of checkpoints.

Shapes: N rows, n rows written or read at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robo_rl.core.errors import CheckpointError
from robo_rl.data.images.image_log import FILE_BYTES, ImageLog
from robo_rl.data.row_table import RowTable

_NUMBER, _FILES = "images", "files"


class ImageFileTable(RowTable):
    """A ``RowTable`` that keeps images (N, …) uint8 in files, and their row numbers in a column.

    Args:
        device: Device of the other columns, and of the images that are read.
        folder: See ``ImageLog``.
        names: Columns in files.
        file_bytes: See ``ImageLog``.
    """

    def __init__(
        self,
        device: torch.device | str,
        folder: Path,
        names: Collection[str],
        file_bytes: int = FILE_BYTES,
    ) -> None:
        super().__init__(device)
        self._log = ImageLog(folder, "the replay buffer", file_bytes)
        self._names = frozenset(names)
        self._digests = dict[int, str]()

    def write(self, at: Tensor, values: Mapping[str, Tensor], limit: int) -> None:
        """See ``RowTable``; images are appended to the files.

        Raises:
            DataError: The rows differ from earlier ones, or a file cannot be written.
        """
        if not len(at):
            return
        self.check(values)
        numbers = self._log.append(self._images(values))
        self._put(at, self._others(values) | {_NUMBER: numbers}, limit)

    def check(self, values: Mapping[str, Tensor]) -> None:
        """See ``RowTable``."""
        number = {_NUMBER: torch.empty(0, dtype=torch.int64)}
        super().check(self._others(values) | number)
        self._log.check(self._images(values))

    def take(self, at: Tensor, prefix: str) -> dict[str, Tensor]:
        """See ``RowTable``."""
        images = self._log.read(self.columns[_NUMBER][at])
        read = {name: x.to(self.device) for name, x in images.items() if name.startswith(prefix)}
        return super().take(at, prefix) | {name.removeprefix(prefix): x for name, x in read.items()}

    def state_from(self, first: int, end: int) -> dict[str, Any]:
        """See ``RowTable``; the files of all rows before ``end`` become durable."""
        numbers = self.columns.get(_NUMBER, torch.empty(0, dtype=torch.int64))[:end]
        return super().state_from(first, end) | {_FILES: self._log.state_dict(numbers)}

    def load_state(self, at: Tensor, state: Mapping[str, Any], limit: int) -> None:
        """See ``RowTable``.

        Raises:
            CheckpointError: A file is missing, or its rows are not those that were saved.
        """
        if _FILES not in state:
            raise CheckpointError(
                "the replay buffer was saved with its images in memory",
                hint="give the run another name=…, or start the stage from its beginning",
            )
        super().check(state["columns"])
        self._log.load_state_dict(state[_FILES])
        self._put(at, state["columns"], limit)

    def digest(self, rows: int, *, without: Collection[str] = ()) -> str:
        """See ``RowTable``; the images of the first rows are hashed once."""
        others = super().digest(rows, without=[*without, _NUMBER])
        if rows and rows not in self._digests:
            self._digests[rows] = self._log.digest(self.columns[_NUMBER][:rows])
        return others + self._digests.get(rows, "")

    def _images(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: values[name] for name in sorted(self._names & set(values))}

    def _others(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: x for name, x in values.items() if name not in self._names}
