"""The lock that a writer holds on the file of its recording until it closes it.

A recording that is still being written looks like one whose writer was killed. The lock tells the
two apart: the kernel releases it when the writer's process ends.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

from robo_rl.core.file_lock import Lock, lock_file


def lock_recording(file: Path) -> Lock | None:
    """Lock the file of a new recording; None on a file system without locks."""
    try:
        return lock_file(file, wait=True)  # a reader's test of the lock lasts microseconds
    except OSError:
        return None


def is_locked(file: Path) -> bool:
    """Return whether a running writer holds a file; it needs no permission to write."""
    with file.open("rb") as data:
        try:
            fcntl.flock(data, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(data, fcntl.LOCK_UN)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False
