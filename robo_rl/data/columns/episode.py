"""Builds episodes of a store from columns, as a mapping says.

Shapes: L rows of an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.core.images import crop_and_resize
from robo_rl.core.memory import demand_memory
from robo_rl.data.columns.feature import Columns
from robo_rl.data.columns.mapping import Mapping, Picture
from robo_rl.data.columns.vector import Vector
from robo_rl.data.dataset import EXECUTED, INTERVENTION

ROWS_AFTER_END = "rows_after_end"
"""Label of an episode: number of rows behind its first flag ``terminated``, which are left out."""

_COPIES = 3
"""An episode in memory: its rows, their chunks, and what the disk gets of them."""

Column = Callable[[str], NDArray[Any]]
"""Name of a column → its rows (L, …)."""


def build_episode(
    length: int,
    column: Column,
    images: Callable[[Picture], NDArray[np.uint8]],
    info: Columns,
    mapping: Mapping,
    where: object,
) -> dict[str, Any]:
    """Return an episode for ``ZarrStore.extend``.

    It ends at the first row whose flag ``terminated`` is set: rewards and values of later rows are
    not those of the episode.

    Args:
        length: L.
        column: Reads a column.
        images: Reads a camera, (L, 3, height, width).
        info: Columns of the dataset.
        mapping: Items and their sources.
        where: Place of the episode, for errors.

    Raises:
        DataError: A flag is neither 0 nor 1, or a column is damaged.
        DeviceError: The episode does not fit the memory.
    """
    needed = _COPIES * length * mapping.obs_spec(info).num_bytes
    demand_memory(needed, str(where), "use smaller images in the mapping")

    def vector(source: Vector, is_delta: Sequence[bool] = (False,)) -> NDArray[np.float32]:
        return source.convert(column(source.source), info.features[source.source], is_delta)

    def flags(name: str) -> NDArray[np.bool_]:
        values = column(name).reshape(-1)
        if not np.isin(values, (0, 1)).all():
            raise DataError(f"'{name}' is no column of flags", where=where, expected="0 or 1")
        return values.astype(np.bool_)

    told, ends = mapping.success, mapping.terminated
    over = np.flatnonzero(flags(ends)) if isinstance(ends, str) and ends else np.zeros(0, np.intp)
    stop = int(over[0]) + 1 if len(over) else length
    success = told if isinstance(told, bool) else bool(flags(told)[:stop].any())
    ended = ends if isinstance(ends, bool) else bool(len(over)) if ends else success
    changes = mapping.act_spec(info).is_delta
    last = np.arange(stop) == stop - 1
    rew = column(mapping.rew).reshape(-1) if mapping.rew else np.zeros(length)
    episode: dict[str, Any] = {
        "obs": {name: vector(each)[:stop] for name, each in mapping.obs.items()}
        | {name: images(each)[:stop] for name, each in mapping.cameras.items()},
        "act": vector(mapping.act, changes)[:stop],
        "rew": rew[:stop].astype(np.float32),
        "terminated": last & ended,
        "truncated": last & (not ended),
        "success": success,
        "meta": {ROWS_AFTER_END: length - stop} if stop < length else {},
    }
    if mapping.executed is not None:
        episode[EXECUTED] = vector(mapping.executed, changes)[:stop]
    if mapping.intervention:
        episode[INTERVENTION] = flags(mapping.intervention)[:stop]
    return episode


def resize_all(frames: Iterable[Any], length: int, picture: Picture) -> NDArray[np.uint8]:
    """Return frames (h, w, C), cropped and resized, as images (L, 3, height, width)."""
    shape = (3, picture.height, picture.width)
    found = np.empty((length, *shape), np.uint8)
    for image, frame in zip(found, frames, strict=True):
        image[:] = crop_and_resize(frame, shape, picture.crop, f"mapping cameras: {picture.source}")
    return found
