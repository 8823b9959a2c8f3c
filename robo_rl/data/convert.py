"""Interfaces of converters to and from datasets: ``robo_rl.converters``, ``robo_rl.exporters``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol


class Converted(NamedTuple):
    """Result of a conversion.

    Args:
        episodes: Number of episodes.
        rows: Number of rows of all episodes.
        notes: Notes on each recording.
    """

    episodes: int
    rows: int
    notes: tuple[str, ...]


class Exporter(Protocol):
    """Writer of one format of other software, built with its own ``Config``."""

    def export(self, source: Path, out: Path) -> int:
        """Write a dataset in that format, completely or not at all.

        Args:
            source: Directory of the dataset.
            out: Directory to be made.

        Returns:
            Number of episodes.

        Raises:
            DataError: The dataset is damaged or does not fit the format.
        """
        ...


class Converter(Protocol):
    """Converter of one kind of recording, built with its own ``Config``."""

    def convert(self, run: Path, out: Path) -> Converted:
        """Convert recordings to a dataset, completely or not at all.

        Args:
            run: A recording, or a folder of recordings.
            out: Directory of the new dataset.

        Raises:
            DataError: A recording is damaged, lacks required data, or has no episode.
        """
        ...

    def explain(self, run: Path) -> str:
        """Return a draft of the settings of a conversion as YAML, to be completed by the user.

        Raises:
            DataError: A recording is damaged.
        """
        ...

    def recover(self, run: Path) -> list[Path]:
        """Write the intact part of truncated recordings to new recordings beside them.

        Returns:
            Paths of the new recordings; empty if none was truncated.

        Raises:
            DataError: A recording has no intact part.
        """
        ...
