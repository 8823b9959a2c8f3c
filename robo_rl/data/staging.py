"""Builds a dataset or a file under another name, which becomes the right one when it is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from robo_rl.core.atomic_files import make_directory, sync
from robo_rl.core.errors import DataError
from robo_rl.core.file_lock import Lock, lock_file

_LOCK, _BUILT = "lock", "built"


@contextmanager
def built_beside(out: Path) -> Generator[Path]:
    """Yield a path for a new dataset or file, which takes the name ``out`` when it is complete.

    The path lies in a folder beside ``out`` that one process holds. A killed process leaves the
    folder behind, and the next one for the same ``out`` empties it.

    Raises:
        DataError: ``out`` exists or its folder does not, another process writes it, or the disk
            refuses.
    """
    demand_new(out)
    folder = out.with_name(f".{out.name}.partial")
    with _held(folder, out):
        try:
            path = _begin(folder, out)
            yield path
            if path.is_file():
                sync([path])  # a dataset flushes its own files
            demand_new(out)
            _rename(path, out)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def demand_new(out: Path) -> None:
    """Check that nothing has the name of an output yet, and that its folder exists.

    Raises:
        DataError: Otherwise.
    """
    if out.exists():
        raise DataError("is there already", where=out, hint="choose another --out")
    if not out.parent.is_dir():
        hint = "make it first, or choose another --out"
        raise DataError("the folder does not exist", where=out.parent, hint=hint)


def _held(folder: Path, out: Path) -> Lock:
    """Return the lock of a folder, which is created if missing."""
    busy = DataError("another process writes it", where=out, hint="wait, or choose another --out")
    try:
        make_directory(folder)
        lock = lock_file(folder / _LOCK)
    except (BlockingIOError, FileNotFoundError):  # another process writes, or has just ended
        raise busy from None
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", where=out) from error
    try:
        is_current = os.path.samestat(os.fstat(lock.fileno()), os.stat(folder / _LOCK))
    except FileNotFoundError:
        is_current = False
    if not is_current:  # another process removed the folder after the lock was opened
        lock.close()
        raise busy
    return lock


def _begin(folder: Path, out: Path) -> Path:
    """Return the path to build, in an emptied folder."""
    path = folder / _BUILT / out.name  # no name of an output is that of the lock
    try:
        # A killed process left what is there beside the lock.
        for left in (each for each in folder.iterdir() if each.name != _LOCK):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        path.parent.mkdir()
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", where=out) from error
    return path


def _rename(path: Path, out: Path) -> None:
    try:
        os.rename(path, out)
        sync([out.parent])
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", where=out) from error
