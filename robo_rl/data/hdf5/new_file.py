"""Writing of an HDF5 file, which tells why it fails.

HDF5 reports a failed write as a chain of its own internals, or not at all where h5py frees an
object, and may crash later. The file here takes all writes, keeps the first error of the system
apart, and raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from robo_rl.data.hdf5.files import import_h5py


class _Sink(FileIO):
    """A file whose writes never fail; the first error is kept."""

    failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or none after a failure."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest and not self.failure:
            try:
                rest = rest[super().write(rest) :]
            except OSError as error:
                self.failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file, unless a write failed."""
        try:
            return super().truncate(size) if not self.failure else size or 0
        except OSError as error:
            self.failure = error
            return size or 0

    def demand_written(self) -> None:
        """Raise the first error.

        Raises:
            OSError: A write failed.
        """
        if self.failure:
            raise self.failure


@contextmanager
def new_file(path: Path) -> Generator[tuple[Any, Callable[[], None]]]:
    """Yield a new HDF5 file, and a function that raises the first error of its writes so far.

    Raises:
        OSError: The file could not be written.
        DeviceError: h5py is not installed.
    """
    h5py = import_h5py()
    with _Sink(path, "w+") as sink:
        try:
            with h5py.File(sink, "w") as file:
                yield file, sink.demand_written
        except Exception:
            sink.demand_written()  # the cause of an error of HDF5
            raise
        sink.demand_written()
