"""``robo-rl data convert --from lerobot``: converts a LeRobot dataset to a dataset of robo-rl.

Shapes: L rows of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.data.columns.conversion import convert_columns, demand_mapping
from robo_rl.data.columns.draft import Told, draft_mapping
from robo_rl.data.columns.episode import build_episode, resize_all
from robo_rl.data.columns.mapping import Mapping, Picture
from robo_rl.data.convert import Converted
from robo_rl.data.lerobot.episodes import EpisodeEntry, read_episodes
from robo_rl.data.lerobot.info import (
    ACTION,
    MAPPING_FILE,
    NEXT_REWARD,
    NEXT_SUCCESS,
    Info,
    read_info,
)
from robo_rl.data.lerobot.parquet import read_table
from robo_rl.data.lerobot.tables import check_clock, episode_rows, numbers, pictures
from robo_rl.data.lerobot.video import Frame, decode_picture, frames_at

TOLD = Told(ACTION, NEXT_SUCCESS, NEXT_REWARD)


def is_observed(key: str) -> bool:
    """Return whether a column is part of the observation."""
    return key.startswith("observation.")


class LeRobotConverter:
    """Converts LeRobotDataset v2.1 and v3.0.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Mapping of columns to items.

        Args:
            mapping: YAML file of ``robo_rl.data.columns.mapping.Mapping``; ``--explain`` drafts it.
        """

        mapping: str = ""

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def convert(self, run: Path, out: Path) -> Converted:
        """See ``Converter``.

        Raises:
            ConfigError: The mapping does not validate.
        """
        info = read_info(run)
        mapping = demand_mapping(self.cfg.mapping, run, "lerobot")

        def episodes() -> Iterator[dict[str, Any]]:
            return LeRobotReader(run, info, mapping).read_all()

        return convert_columns(info, mapping, "lerobot", episodes, run, out)

    def recover(self, run: Path) -> list[Path]:
        """See ``Converter``; there is nothing to recover."""
        read_info(run)
        return []

    def explain(self, run: Path) -> str:
        """Return a draft of the mapping as YAML; an export of robo-rl holds a complete one."""
        info, kept = read_info(run), run / MAPPING_FILE
        if kept.is_file():
            return f"# {' '.join(info.about.split())}.\n{_text(kept)}"
        return draft_mapping(info, is_observed, TOLD)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read: {error}", where=file) from None


class LeRobotReader:
    """Reads the episodes of a LeRobot dataset as a mapping says.

    Args:
        root: Folder of the dataset.
        info: Its description.
        mapping: The mapping.

    Raises:
        DataError: The list of episodes is missing or damaged.
    """

    def __init__(self, root: Path, info: Info, mapping: Mapping) -> None:
        self.root, self.info, self.mapping = root, info, mapping
        self.episodes = read_episodes(root, info)
        stored = {key for key in mapping.columns if info.features[key].dtype != "video"}
        clock = ("timestamp", "frame_index", "episode_index")
        self._columns = list(dict.fromkeys([*clock, *sorted(stored)]))
        self._table = lru_cache(maxsize=2)(
            lambda file: read_table(file, self._columns, info.total_frames)
        )

    def read_all(self) -> Iterator[dict[str, Any]]:
        """Yield the episodes for ``ZarrStore.extend``.

        Raises:
            DataError: A file is damaged, or its rows are not those of the description.
            DeviceError: An episode does not fit the memory.
        """
        return map(self.read, self.episodes)

    def read(self, entry: EpisodeEntry) -> dict[str, Any]:
        """Return one episode; see ``read_all``."""
        file = entry.rows
        rows = episode_rows(self._table(file), entry.number, entry.length, file)
        check_clock(rows, self.info.fps, file)
        episode = build_episode(
            entry.length,
            lambda key: numbers(rows, key, self.info.features[key], file),
            lambda picture: self._pictures(rows, entry, picture),
            self.info,
            self.mapping,
            f"{file} episode {entry.number}",
        )
        return {**episode, "meta": {"tasks": list(entry.tasks), **episode["meta"]}}

    def _pictures(self, rows: Any, entry: EpisodeEntry, picture: Picture) -> NDArray[np.uint8]:
        """Return the images (L, 3, height, width) of a camera."""
        return resize_all(self._frames(rows, entry, picture.source), entry.length, picture)

    def _frames(self, rows: Any, entry: EpisodeEntry, key: str) -> Iterator[Frame]:
        feature = self.info.features[key]
        if key in entry.videos:
            part = entry.videos[key]
            yield from frames_at(
                part.file, part.begin_s, entry.length, self.info.fps, feature.sides
            )
        else:
            for number, data in enumerate(pictures(rows, key, entry.rows)):
                yield decode_picture(data, f"{entry.rows} {key} row {number}", feature.sides)
