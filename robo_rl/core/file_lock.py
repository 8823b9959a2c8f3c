"""A lock on a file: one holder at a time, across processes and within a process.

The lock is ``flock``'s. It belongs to the open file description, which a forked child shares.
Closing the file alone would keep the lock as long as any such child lives. The holder therefore
unlocks explicitly, and a forked child closes its share at once. A POSIX lock would not be
inherited. However, it excludes no other thread of the process, and it is lost when the process
opens and closes the file a second time.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

_MODE = 0o666


class Lock:
    """A held lock; a context manager that releases it. See ``lock_file``."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._holder = descriptor, os.getpid()
        _held.add(self)

    def fileno(self) -> int:
        """Return the descriptor for a child program that keeps the lock if this process dies."""
        return self._descriptor

    def close(self) -> None:
        """Release the lock; a second call is harmless."""
        if self._descriptor < 0:
            return
        if os.getpid() == self._holder:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.close_descriptor()

    def close_descriptor(self) -> None:
        """Close this process's descriptor; other holders of the descriptor keep the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close_descriptor()


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def lock_file(path: Path, *, wait: bool = False) -> Lock:
    """Lock a file until the returned lock is closed or the process ends.

    A program that inherits the descriptor keeps the lock if this process dies.

    Args:
        path: The lock file; it is created if missing, and never removed.
        wait: Whether to wait for the current holder.

    Raises:
        BlockingIOError: Another holder has the lock, and ``wait`` is False.
        OSError: The file cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(descriptor)
        raise
    return Lock(descriptor)


def _drop_all() -> None:
    for lock in list(_held):
        lock.close_descriptor()


os.register_at_fork(after_in_child=_drop_all)
