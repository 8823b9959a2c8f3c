"""Decoded images of a dataset in files, for datasets that are larger than memory.

A dataset on disk holds compressed images of whole episodes, which windows at random rows cannot
read quickly. The cache decodes each episode once. The system keeps the files' parts that are in use
in free memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch

from robo_rl.core.atomic_files import write_file
from robo_rl.core.checksummed_json import seal, unseal
from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.core.memory import demand_disk
from robo_rl.data.images.image_log import ImageLog
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.zarr_store import ZarrStore

FOLDER = "frames"
"""Folder of decoded images in that of a stage, which can be made again."""
_INDEX = "frames.json"


def cached_frames(
    folder: Path, store: ZarrStore, episodes: Sequence[EpisodeRecord], names: Sequence[str]
) -> ImageLog:
    """Return the images of episodes, decoded into files of a folder, in the order of their rows.

    Files of the same images in the folder are verified and used again; other files are deleted.

    Args:
        folder: Folder of the files; nothing else belongs there.
        store: The dataset.
        episodes: Its episodes.
        names: Observations that are images.

    Raises:
        DataError: A chunk of the dataset is damaged, or a file cannot be written.
        DeviceError: The disk has no room.
    """
    source = {
        "dataset": store.digest(),
        "episodes": [[record.start, record.stop] for record in episodes],
        "names": sorted(names),
    }
    if (kept := _load(folder, source)) is not None:
        return kept
    shutil.rmtree(folder, ignore_errors=True)
    rows = sum(record.length for record in episodes)
    needed = rows * store.obs_spec.select(tuple(names), "frames").num_bytes
    hint = "use fewer episodes, or smaller images"
    demand_disk(needed, folder, f"{rows:,} rows of images of {store.path}", hint)
    log = ImageLog(folder, str(store.path))
    try:
        for record in episodes:
            images = store.read([f"obs.{name}" for name in names], [record])
            log.append({key.removeprefix("obs."): torch.from_numpy(x) for key, x in images.items()})
        state = log.state_dict(torch.arange(log.rows))
        write_file(folder / _INDEX, seal({"source": source, "log": state}))
    except OSError as error:
        problem = f"decoded images cannot be written: {error.strerror or error}"
        raise DataError(problem, where=folder, hint="free disk space") from error
    return log


def _load(folder: Path, source: object) -> ImageLog | None:
    """Return the images of a folder; None if they are damaged or of something else."""
    log = ImageLog(folder, "the dataset")
    try:
        doc = unseal((folder / _INDEX).read_bytes())
        if doc["source"] != source:
            return None
        log.load_state_dict(doc["log"])
    except (OSError, ValueError, CheckpointError):  # they are decoded anew
        return None
    return log
