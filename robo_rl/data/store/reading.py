"""Reads the rows of episodes into one array, one after another.

Shapes: N rows of all episodes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.store.arrays import RowArray
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.schema import REPAIR_HINT, align_up

_RUN_BYTES = 256 << 20
"""Approximate size of the rows that are read at once, beside those that are returned."""

_RUN_EPISODES = 256


def read_rows(array: RowArray, episodes: Sequence[EpisodeRecord]) -> NDArray[Any]:
    """Return the rows (N, …) of episodes, without the gaps between them.

    Raises:
        DataError: A chunk is missing or damaged; the message names it.
    """
    found = np.empty((sum(each.length for each in episodes), *array.spec.shape), array.spec.dtype)
    stop = 0
    for run in _runs(episodes, array):
        first = run[0].start
        rows = array.read(first, run[-1].stop)
        for episode in run:
            part = rows[episode.start - first : episode.stop - first]
            found[stop : stop + episode.length] = part
            stop += episode.length
    return found


def check_bounds(array: RowArray, episodes: Sequence[EpisodeRecord]) -> None:
    """Check that rows in the log exist in an array, and their chunks as files.

    Call it before memory is allocated for the rows.

    Raises:
        DataError: Some do not.
    """
    stop = max((episode.stop for episode in episodes), default=0)
    chunks = sum(-(-episode.length // array.chunk_rows) for episode in episodes)
    if stop > array.rows:
        expected, found = f"at least {stop} rows, as the commit log says", f"{array.rows} rows"
    elif chunks > (files := array.count_chunk_files()):
        expected, found = f"{chunks} chunk files, as the commit log says", f"{files}"
    else:
        return
    raise DataError(
        f"array '{array.key}' is too short",
        where=array.path,
        expected=expected,
        found=found,
        hint=REPAIR_HINT,
    )


def _runs(episodes: Sequence[EpisodeRecord], array: RowArray) -> list[list[EpisodeRecord]]:
    # Episodes in adjacent chunks are read at once, which is much faster than one by one.
    runs: list[list[EpisodeRecord]] = []
    most_rows = _RUN_BYTES // max(1, array.spec.num_bytes)
    for episode in episodes:
        if runs and _joins(runs[-1], episode, array.chunk_rows, most_rows):
            runs[-1].append(episode)
        else:
            runs.append([episode])
    return runs


def _joins(
    run: list[EpisodeRecord], episode: EpisodeRecord, chunk_rows: int, most_rows: int
) -> bool:
    """Return whether an episode follows a run, and both together are of a size."""
    adjoins = align_up(run[-1].stop, chunk_rows) == episode.start
    return adjoins and len(run) < _RUN_EPISODES and episode.stop - run[0].start <= most_rows
