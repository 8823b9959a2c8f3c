"""Converts a dataset of columns to a dataset of robo-rl, as a mapping says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from robo_rl.core.errors import DataError
from robo_rl.data.columns.episode import ROWS_AFTER_END
from robo_rl.data.columns.feature import Columns
from robo_rl.data.columns.mapping import Mapping, read_mapping
from robo_rl.data.convert import Converted
from robo_rl.data.staging import built_beside
from robo_rl.data.store.zarr_store import ZarrStore

_BLOCK_BYTES = 64 << 20
_BLOCK_EPISODES = 256


def demand_mapping(file: str, run: Path, source: str) -> Mapping:
    """Read the mapping of a conversion.

    Args:
        file: YAML file of the mapping; empty if none is given.
        run: Dataset to be converted.
        source: Name of the converter.

    Raises:
        DataError: No mapping is given.
        ConfigError: The mapping does not validate.
    """
    if not file:
        hint = f"`robo-rl data convert {run} --from {source} --explain` drafts one"
        raise DataError("a mapping is needed: units are not in the dataset", hint=hint)
    return read_mapping(file)


def convert_columns(
    info: Columns,
    mapping: Mapping,
    source: str,
    episodes: Callable[[], Iterable[dict[str, Any]]],
    run: Path,
    out: Path,
) -> Converted:
    """Convert a dataset, completely or not at all.

    Args:
        info: Columns of the dataset.
        mapping: Items and their sources.
        source: Format of the dataset, for the result's metadata.
        episodes: Reads the episodes, one at a time, for ``ZarrStore.extend``.
        run: The dataset.
        out: Directory of the new dataset.

    Raises:
        DataError: The mapping does not fit the columns, or the dataset is damaged.
    """
    mapping.check(info)
    said = mapping.model_dump(mode="json")
    meta = {"source": source, "robot": info.robot_type or "", "mapping": said}
    specs = mapping.obs_spec(info), mapping.act_spec(info)
    with built_beside(out) as path:
        store = ZarrStore.create(path, *specs, meta, columns=mapping.store_columns(info))
        for block in _blocks(episodes(), store.obs_spec.num_bytes):
            store.extend(block)
    return Converted(len(store.episodes), store.num_rows, (f"{run}: {info.about}", *_cut(store)))


def _blocks(episodes: Iterable[dict[str, Any]], row_bytes: int) -> Iterator[list[dict[str, Any]]]:
    """Yield episodes together, up to a size and number: a commit costs as much as many rows."""
    block, size = list[dict[str, Any]](), 0
    for episode in episodes:
        block.append(episode)
        size += len(episode["rew"]) * row_bytes
        if size >= _BLOCK_BYTES or len(block) == _BLOCK_EPISODES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _cut(store: ZarrStore) -> list[str]:
    """Return a note on rows that were left out behind the end of their episodes."""
    cut = [n for each in store.episodes if (n := each.meta.get(ROWS_AFTER_END))]
    rows = sum(n for n in cut if isinstance(n, int))
    if not cut:
        return []
    episodes = f"{len(cut)} episode{'s' if len(cut) > 1 else ''}"
    return [f"left out: {rows} rows behind the first flag `terminated` of {episodes}"]
