"""Converts a dataset of columns to a dataset of robo-rl, as a mapping says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from robo_rl.core.errors import DataError
from robo_rl.data.columns.episode import built_beside
from robo_rl.data.columns.feature import Columns
from robo_rl.data.columns.mapping import Mapping, read_mapping
from robo_rl.data.convert import Converted
from robo_rl.data.store.zarr_store import ZarrStore


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
    blocks: Callable[[], Iterable[list[dict[str, Any]]]],
    run: Path,
    out: Path,
) -> Converted:
    """Convert a dataset, completely or not at all.

    Args:
        info: Columns of the dataset.
        mapping: Items and their sources.
        source: Format of the dataset, for the result's metadata.
        blocks: Reads the episodes, some at a time, for ``ZarrStore.extend``.
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
        for block in blocks():
            store.extend(block)
    return Converted(len(store.episodes), store.num_rows, (f"{run}: {info.about}",))
