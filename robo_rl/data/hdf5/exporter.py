"""``robo-rl data export --to robomimic``: writes a dataset as a robomimic HDF5 file.

Shapes: L rows of an episode.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.core.images import channels_first
from robo_rl.data.dataset import EXECUTED, INTERVENTION
from robo_rl.data.hdf5.episodes import SUCCESSES
from robo_rl.data.hdf5.new_file import new_file
from robo_rl.data.staging import built_beside
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.zarr_store import ZarrStore

COLUMNS = {EXECUTED: "executed_action", INTERVENTION: "intervention"}
"""Further column → its array beside ``actions``, which robomimic does not read."""


class RobomimicExporter:
    """Writes ``data/demo_0`` and so on, with ``obs``, ``actions``, ``rewards`` and ``dones``.

    Images are (L, h, w, C), as robomimic stores them. ``mask/success`` lists the episodes that
    succeeded, and the last flag of ``successes`` tells it within each.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Name of the env that ``env_args`` holds; robomimic asks for one."""

        env_name: str = "robo-rl"
        """Name of the env."""

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def export(self, source: Path, out: Path) -> int:
        """Write a dataset, completely or not at all; return the number of episodes.

        Raises:
            DataError: The source is damaged or empty, or the target exists, is being written or
                cannot be written.
        """
        store = ZarrStore.open(source)
        if not store.episodes:
            raise DataError("holds no episode", where=source)
        if unknown := sorted(set(store.schema.columns) - set(COLUMNS)):
            raise DataError(
                "columns that the export does not know",
                where=source,
                expected=", ".join(COLUMNS),
                found=", ".join(unknown),
            )
        try:
            with built_beside(out) as path, new_file(path) as (file, demand_written):
                self._write(file, store, demand_written)
        except OSError as error:
            problem = f"could not be written: {error.strerror or error}"
            hint = "free space or check the permissions, and export again"
            raise DataError(problem, where=out, hint=hint) from error
        return len(store.episodes)

    def _write(self, file: Any, store: ZarrStore, demand_written: Callable[[], None]) -> None:
        data = file.create_group("data")
        rate, meta = store.act_spec.rate_hz, store.schema.meta
        kwargs = {"control_freq": rate, "robots": [str(meta.get("robot", ""))]}
        args = {"env_name": self.cfg.env_name, "type": 1, "env_kwargs": kwargs}
        data.attrs["env_args"] = json.dumps(args)
        data.attrs["total"] = store.num_rows
        for number, record in enumerate(store.episodes):
            self._write_episode(data.create_group(f"demo_{number}"), store, record)
            demand_written()
        good = [f"demo_{n}" for n, each in enumerate(store.episodes) if each.success]
        file.create_dataset("mask/success", data=np.array(good, dtype="S"))

    def _write_episode(self, group: Any, store: ZarrStore, record: EpisodeRecord) -> None:
        rows = store.read(None, [record])
        group.attrs["num_samples"] = record.length
        group.create_dataset("actions", data=rows["act"])
        group.create_dataset("rewards", data=rows["rew"])
        group.create_dataset("dones", data=rows["terminated"].astype(np.int64))
        is_last = np.arange(record.length) == record.length - 1
        group.create_dataset(SUCCESSES, data=(is_last & record.success).astype(np.int64))
        for name in store.schema.columns:
            group.create_dataset(COLUMNS[name], data=rows[name])
        for name, spec in store.obs_spec.items.items():
            values = rows[f"obs.{name}"]
            if name in store.obs_spec.image_names and channels_first(spec.shape):
                values = values.transpose(0, 2, 3, 1)
            group.create_dataset(f"obs/{name}", data=values, compression="gzip")
