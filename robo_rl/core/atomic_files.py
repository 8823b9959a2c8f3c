"""Atomic, durable file writes: a file is whole or absent after a kill, power cut or full disk.

A file or directory is written under a temporary name, flushed to the disk, read back, and only then
renamed; the directory that holds the name is flushed last. A call that returns without an exception
guarantees that the content is saved. Every failure is an ``OSError``; the caller converts it to its
own typed error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Generator, Iterable
from io import FileIO
from pathlib import Path

_TEMPORARY = ".tmp-"
_OLD = ".old-"


def write_file(path: Path, data: bytes) -> None:
    """Replace a file as a whole, or create it.

    Args:
        path: Path of the file; its directory exists.
        data: All of its content.

    Raises:
        OSError: It could not be written, or reads back different; the old file is untouched.
    """
    temporary = _temporary_name(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if temporary.read_bytes() != data:
            raise OSError(errno.EIO, "reads back different from what was written", str(path))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync([path.parent])


def append_file(path: Path, data: bytes) -> None:
    """Append to a file, all or nothing as long as this process survives.

    Raises:
        OSError: It could not be written, and has been truncated to its previous size; or it is
            missing or a link.
    """
    with _opened(path) as file:
        end = file.seek(0, os.SEEK_END)
        try:
            _write_all(file.fileno(), data)
            os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                file.truncate(end)
            raise


def overwrite_file(path: Path, data: bytes) -> None:
    """Write a file without readers in place; flush its content, but not its directory entry.

    Raises:
        OSError: It could not be written, or is a link.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def truncate_file(path: Path, size: int) -> None:
    """Truncate a file to ``size`` bytes and flush it to the disk.

    Raises:
        OSError: It could not be truncated, or is missing or a link.
    """
    with _opened(path) as file:
        file.truncate(size)
        os.fsync(file.fileno())


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, and flush each one's parent."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync([path.parent])


@contextlib.contextmanager
def staged_directory(final: Path) -> Generator[Path]:
    """Fill a temporary directory; it is renamed when the block ends without an exception.

    An existing directory of that name is replaced. After a kill in between, ``find_directory``
    finds either the old or the new one, whole.

    Yields:
        The temporary directory to write into.

    Raises:
        OSError: It could not be written or renamed; the old directory keeps the name.
    """
    make_directory(final.parent)
    _recover(final)
    stage = _temporary_name(final)
    try:
        stage.mkdir()
        yield stage
        sync(sorted(stage.rglob("*"), reverse=True))
        sync([stage])
        _take_name(stage, final)
    except BaseException:
        shutil.rmtree(stage, ignore_errors=True)
        with contextlib.suppress(OSError):
            _recover(final)
        raise


def find_directory(final: Path) -> Path:
    """Return the path of ``final``'s content; it differs only after an interrupted replacement."""
    if not final.name:
        return final
    old = final.with_name(_OLD + final.name)
    return old if old.exists() and not final.exists() else final


def final_name(path: Path) -> str:
    """Return the name whose content ``path`` is; the inverse of ``find_directory``."""
    return path.name.removeprefix(_OLD)


def remove_temporary(parent: Path) -> None:
    """Remove leftovers of killed writers from ``parent``, which must have no other writer."""
    for leftover in parent.glob(f"{_TEMPORARY}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Remove a directory so that it never appears half removed under its own name."""
    doomed = _temporary_name(path)
    path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def sync(paths: Iterable[Path]) -> None:
    """Flush files, and the entries of directories, to the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _recover(final: Path) -> None:
    """Finish or undo an interrupted replacement; only the single writer may call this."""
    old = final.with_name(_OLD + final.name)
    if not old.exists():
        return
    if final.exists():
        discard(old)
    else:
        old.rename(final)
        sync([final.parent])


def _take_name(stage: Path, final: Path) -> None:
    old = final.with_name(_OLD + final.name)
    if final.exists():
        final.rename(old)
    stage.rename(final)
    sync([final.parent])
    if old.exists():
        discard(old)


def _opened(path: Path) -> FileIO:
    """Open a file without buffer for reading and writing, but do not follow a link."""
    return FileIO(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+")


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _temporary_name(path: Path) -> Path:
    return path.with_name(f"{_TEMPORARY}{path.name}-{secrets.token_hex(4)}")
