"""Builds episodes of a store from columns, as a mapping says; and a store beside its final place.

Shapes: L rows of an episode.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError
from robo_rl.data.columns.feature import Columns
from robo_rl.data.columns.mapping import Mapping, Picture
from robo_rl.data.dataset import EXECUTED, INTERVENTION

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

    Args:
        length: L.
        column: Reads a column.
        images: Reads a camera, (L, 3, height, width).
        info: Columns of the dataset.
        mapping: Items and their sources.
        where: Place of the episode, for errors.

    Raises:
        DataError: A flag is neither 0 nor 1, or a column is damaged.
    """

    def vector(source: Any) -> NDArray[np.float32]:
        return source.convert(column(source.source), info.features[source.source])

    def flags(name: str) -> NDArray[np.bool_]:
        values = column(name).reshape(-1)
        if not np.isin(values, (0, 1)).all():
            raise DataError(f"'{name}' is no column of flags", where=where, expected="0 or 1")
        return values.astype(np.bool_)

    told, last = mapping.success, np.arange(length) == length - 1
    success = told if isinstance(told, bool) else bool(flags(told).any())
    ended = bool(flags(mapping.terminated)[-1]) if mapping.terminated else success
    rew = column(mapping.rew).reshape(-1) if mapping.rew else np.zeros(length)
    episode: dict[str, Any] = {
        "obs": {name: vector(each) for name, each in mapping.obs.items()}
        | {name: images(each) for name, each in mapping.cameras.items()},
        "act": vector(mapping.act),
        "rew": rew.astype(np.float32),
        "terminated": last & ended,
        "truncated": last & (not ended),
        "success": success,
    }
    if mapping.executed is not None:
        episode[EXECUTED] = vector(mapping.executed)
    if mapping.intervention:
        episode[INTERVENTION] = flags(mapping.intervention)
    return episode


@contextmanager
def built_beside(out: Path) -> Generator[Path]:
    """Yield a path beside ``out`` for a new dataset, which takes its name when it is complete.

    Raises:
        DataError: ``out`` exists.
    """
    if out.exists():
        raise DataError("is there already", where=out, hint="choose another --out")
    partial = out.with_name(f".{out.name}.converting")
    shutil.rmtree(partial, ignore_errors=True)  # of a conversion that was killed
    try:
        yield partial
        os.replace(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
