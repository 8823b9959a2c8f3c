"""What makes a dataset of what others recorded; found by entry points, ``robo_rl.converters``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol


class Converted(NamedTuple):
    """What came of it.

    Args:
        episodes: How many.
        rows: Of all of them together.
        notes: What is worth saying of each recording.
    """

    episodes: int
    rows: int
    notes: tuple[str, ...]


class Converter(Protocol):
    """Of one kind of recording; built with its own ``Config``."""

    def convert(self, run: Path, out: Path) -> Converted:
        """Make a dataset; all of it, or none.

        Args:
            run: A recording, or a folder of some.
            out: Directory of the dataset, to be made.

        Raises:
            DataError: A recording is damaged or does not hold what is wanted, or there is no
                episode in it.
        """
        ...

    def recover(self, run: Path) -> list[Path]:
        """Write what is whole of recordings that were cut off to recordings beside them.

        Returns:
            Those that were made; empty where nothing was cut off.

        Raises:
            DataError: There is nothing whole in one.
        """
        ...
