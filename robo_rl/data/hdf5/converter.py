"""``robo-rl data convert --from hdf5``: converts robomimic, Minari and D4RL files to a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.data.columns.conversion import convert_columns, demand_mapping
from robo_rl.data.columns.draft import draft_mapping
from robo_rl.data.columns.episode import build_episode, resize_all
from robo_rl.data.columns.feature import CHANNELS
from robo_rl.data.columns.mapping import Mapping, Picture
from robo_rl.data.convert import Converted
from robo_rl.data.hdf5.episodes import OBS, TERMINATED, TOLD, Layout, read_episodes, read_layout


class Hdf5Converter:
    """Converts HDF5 files of other software.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Mapping of columns to items, and the rate of the rows.

        Args:
            mapping: YAML file of ``robo_rl.data.columns.mapping.Mapping``; ``--explain`` drafts it.
            rate_hz: Rows per second, for a file that does not say it; 0 takes that of the file.
            max_steps: Rows after which episodes were cut, for a D4RL file without `timeouts`.
        """

        mapping: str = ""
        rate_hz: float = Field(default=0.0, ge=0.0)
        max_steps: int = Field(default=0, ge=0)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def convert(self, run: Path, out: Path) -> Converted:
        """See ``Converter``.

        Raises:
            ConfigError: The mapping does not validate.
        """
        layout = self._layout(run)
        mapping = demand_mapping(self.cfg.mapping, run, "hdf5")

        def episodes() -> Iterator[dict[str, Any]]:
            for number, rows in enumerate(read_episodes(run, layout, mapping.columns)):
                yield _episode(rows, layout, mapping, f"{run} episode {number}")

        return convert_columns(layout, mapping, layout.kind, episodes, run, out)

    def recover(self, run: Path) -> list[Path]:
        """See ``Converter``; there is nothing to recover."""
        read_layout(run, self.cfg.max_steps)
        return []

    def explain(self, run: Path) -> str:
        """Return a draft of the mapping as YAML."""
        return draft_mapping(
            read_layout(run, self.cfg.max_steps), lambda column: column.startswith(OBS), TOLD
        )

    def _layout(self, run: Path) -> Layout:
        layout = read_layout(run, self.cfg.max_steps)
        rate = self.cfg.rate_hz or layout.rate_hz
        if not rate:
            raise DataError(
                "does not say its rate", where=run, hint="set rate_hz=20, or what it is"
            )
        return replace(layout, rate_hz=rate)


def _episode(
    rows: dict[str, NDArray[Any]], layout: Layout, mapping: Mapping, where: str
) -> dict[str, Any]:
    """Return an episode for ``ZarrStore.extend``."""

    def images(picture: Picture) -> NDArray[np.uint8]:
        frames = (_coloured(frame) for frame in rows[picture.source])
        return resize_all(frames, len(rows[picture.source]), picture)

    ends = {"terminated": TERMINATED} if mapping.terminated == "" and TERMINATED in rows else {}
    told = mapping.model_copy(update=ends)
    return build_episode(
        len(rows[mapping.act.source]), rows.__getitem__, images, layout, told, where
    )


def _coloured(frame: Any) -> Any:
    """Return an image as colour (h, w, 3); one channel is repeated."""
    last = frame if frame.shape[2] in CHANNELS else frame.transpose(1, 2, 0)
    return np.repeat(last, 3, axis=2) if last.shape[2] == 1 else last
