"""Lengths of the episodes in a D4RL file, whose arrays hold the rows of all episodes.

``terminals`` and ``timeouts`` mark the last rows of episodes. Files without ``timeouts`` need the
time limit of the env, because a reset leaves no trace in the other arrays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.hdf5.files import read_array

TERMINALS, TIMEOUTS = "terminals", "timeouts"


def check_cuts(path: Path, max_steps: int, *, is_told: bool) -> None:
    """Check that one of file and setting tells where episodes were cut.

    Args:
        path: The file.
        max_steps: Setting of the time limit, in rows; 0 for none.
        is_told: Whether the file tells it.

    Raises:
        DataError: Neither does, or both do.
    """
    if not is_told and not max_steps:
        raise DataError(
            "does not say where episodes were cut",
            where=path,
            expected=TIMEOUTS,
            hint="set max_steps=1000, or what the env's time limit is in rows",
        )
    if is_told and max_steps:
        raise DataError("says itself where episodes were cut", where=path, hint="omit max_steps")


def episode_lengths(flags: dict[str, Any], rows: int, max_steps: int, path: Path) -> list[int]:
    """Return the numbers of rows of the episodes, in order.

    Args:
        flags: ``terminals``, and ``timeouts`` if the file has them.
        rows: Rows of the file.
        max_steps: Time limit of a file without ``timeouts``, else 0.
        path: The file.

    Raises:
        DataError: The flags have another shape or are damaged, or the cuts are told by neither or
            by both of file and ``max_steps``.
    """
    check_cuts(path, max_steps, is_told=TIMEOUTS in flags)
    over = np.zeros(rows, np.bool_)
    for name, array in flags.items():
        over |= _flags(array, rows, f"{path} {name}")
    over[-1] = True
    lengths = np.diff(np.flatnonzero(over), prepend=-1).tolist()
    return [part for length in lengths for part in _cut(length, max_steps)]


def _flags(array: Any, rows: int, where: str) -> NDArray[np.bool_]:
    if array.shape != (rows,):
        raise DataError("another shape", where=where, expected=(rows,), found=array.shape)
    return read_array(array, slice(0, rows), where).astype(np.bool_)


def _cut(length: int, max_steps: int) -> list[int]:
    """Return the lengths of the pieces that a time limit cuts; 0 cuts nowhere."""
    whole, rest = divmod(length, max_steps) if max_steps else (0, length)
    return [max_steps] * whole + [rest] * (rest > 0)
