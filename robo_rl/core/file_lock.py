"""A lock on a file: one holder at a time, among processes and within one.

The lock is ``flock``'s. It belongs to the open file, which a forked child shares, so closing the
file alone keeps the lock for as long as any such child lives. The holder therefore unlocks
explicitly, which ends the lock whatever a child holds, and a forked child drops its share at once.
A POSIX lock would not be inherited, but it neither keeps out another thread of the process nor
survives that the process opens and closes the file a second time.
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
        """Descriptor to hand to a program that is to keep the lock if this process dies."""
        return self._descriptor

    def close(self) -> None:
        """Release the lock; a second call is harmless."""
        if self._descriptor < 0:
            return
        if os.getpid() == self._holder:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.close_descriptor()

    def close_descriptor(self) -> None:
        """Close this process's share; the lock stays with whoever else has one."""
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
    """Lock a file until what is returned is closed, or the process ends.

    A program that was started with the descriptor keeps the lock if this process dies.

    Args:
        path: Created if need be; it stays there.
        wait: For whoever holds it.

    Raises:
        BlockingIOError: Another one holds it, and is not waited for.
        OSError: It cannot be written.
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
