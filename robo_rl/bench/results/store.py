"""Store of kept cells: files are written atomically and checked when read."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from robo_rl.bench.results.cell_record import DELETE, FORMAT, CellRecord, read_json
from robo_rl.bench.suite.suite import CellKey
from robo_rl.core.atomic_files import make_directory, remove_temporary, write_file
from robo_rl.core.errors import CheckpointError, DataError, first_problem
from robo_rl.core.file_lock import lock_file

LOCK, PROBE = ".lock", ".probe"


class Results:
    """Folder of a suite's kept cells.

    Args:
        root: Folder of all suites.
        suite: Name of the suite.
    """

    def __init__(self, root: Path, suite: str) -> None:
        self.root, self.suite = root, suite

    def path(self, key: CellKey) -> Path:
        """Return the path of a cell's file."""
        return self.root / self.suite / key.task / key.method / f"{key.seed}.json"

    def read(self) -> dict[CellKey, CellRecord]:
        """Read all kept cells.

        Raises:
            DataError: A file is damaged.
        """
        files = sorted((self.root / self.suite).glob("*/*/*.json"))
        return {kept.key: kept for kept in map(self._read, files)}

    def find(self, key: CellKey) -> CellRecord | None:
        """Read the record of one cell; None if it is not kept.

        Raises:
            DataError: Its file is damaged.
        """
        path = self.path(key)
        return self._read(path) if path.is_file() else None

    def write(self, kept: CellRecord) -> Path:
        """Write a cell's record atomically.

        Raises:
            CheckpointError: It cannot be written.
        """
        path = self.path(kept.key)
        text = kept.model_dump_json(indent=1)
        flat = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", _on_one_line, text)
        try:
            with self._writing(path.parent):
                write_file(path, flat.encode() + b"\n")
        except OSError as error:
            raise _unwritable(path, error) from error
        return path

    def demand_writable(self) -> None:
        """Check before a run that results can be written.

        Raises:
            CheckpointError: The folder is not writable.
        """
        place = self.root / self.suite
        try:
            with self._writing(place):
                write_file(place / PROBE, b"")
                (place / PROBE).unlink()
        except OSError as error:
            raise _unwritable(place, error) from error

    @contextmanager
    def _writing(self, place: Path) -> Generator[None]:
        """Lock the store, and remove temporary files of killed writers."""
        make_directory(place)
        with lock_file(self.root / LOCK, wait=True):
            remove_temporary(place)
            (place / PROBE).unlink(missing_ok=True)
            yield

    def _read(self, path: Path) -> CellRecord:
        try:
            kept = CellRecord.model_validate(_of_this_format(path, read_json(path)))
        except ValidationError as error:
            found = first_problem(error, "cell")
            raise DataError("is no kept cell", where=path, found=found, hint=DELETE) from error
        if self.path(kept.key) != path:
            raise DataError(
                "lies in another's place",
                where=path,
                expected=f"what is of {path.relative_to(self.root / self.suite).with_suffix('')}",
                found=str(kept.key),
                hint=f"move it to {self.path(kept.key)}, or delete it",
            )
        return kept


def _of_this_format(path: Path, body: Mapping[str, Any]) -> Mapping[str, Any]:
    found = body.get("format", FORMAT)
    if isinstance(found, int) and found > FORMAT:
        expected, hint = f"format {FORMAT} or older", "update this robo-rl; what is kept is good"
        raise DataError("is a newer one's", where=path, expected=expected, found=found, hint=hint)
    return body


def _on_one_line(found: re.Match[str]) -> str:
    return "[" + re.sub(r"\s+", " ", found[1]) + "]"


def _unwritable(path: Path, error: OSError) -> CheckpointError:
    reason = error.strerror or str(error)
    hint = "name another --results, or check the permissions"
    return CheckpointError(f"cannot be written: {reason}", where=path, hint=hint)
