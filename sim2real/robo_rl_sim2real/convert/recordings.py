"""Finds the recordings of a folder, and decides which of them are read and which are recovered.

A truncated recording and its recovered copy hold the same rows, so only one of them is read: the
copy, if it is as new as the recording, or a recording that is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from robo_rl.core.errors import DataError
from robo_rl_sim2real.recording.recovery import (
    is_being_recorded,
    is_truncated,
    mcap_files,
    recovered_path,
)

REINDEX = "`ros2 bag reindex` writes the metadata of a recording in SQLite"


class Recordings(NamedTuple):
    """Recordings to use, and a note on each of the others.

    Args:
        bags: Paths, by name.
        notes: Notes on recordings that are left out.
    """

    bags: list[Path]
    notes: list[str]


def find_bags(run: Path) -> list[Path]:
    """Return the bag at a path, or all bags in a folder, by name.

    Raises:
        DataError: There is no bag.
    """
    if _is_bag(run):
        return [run]
    found = sorted(path for path in run.iterdir() if _is_bag(path)) if run.is_dir() else []
    if not found:
        raise DataError(
            "no recording",
            where=run,
            expected="a rosbag2, or a folder of some",
            found="nothing there" if not run.exists() else "none",
        )
    return found


def find_readable(run: Path) -> Recordings:
    """Return the bags at a path that hold each row once; damage shows when they are opened.

    Raises:
        DataError: There is no bag.
    """
    found = find_bags(run)
    copies = {recovered_path(bag): bag for bag in found if _is_whole(bag)}

    def why_not(bag: Path) -> str:
        if is_replaced(bag):
            return f"it was cut off, and {recovered_path(bag).name} has what is whole of it"
        return f"{copies[bag].name} is whole" if bag in copies else ""

    return _without(found, why_not)


def find_torn(run: Path) -> Recordings:
    """Return the bags at a path that can be recovered and have no recovered copy.

    Raises:
        DataError: There is no bag.
    """

    def why_not(bag: Path) -> str:
        if is_being_recorded(bag):
            return "it is being recorded"
        return f"it was cut off; {REINDEX}" if is_unindexed(bag) else ""

    bags, notes = _without(find_bags(run), why_not)
    return Recordings([bag for bag in bags if is_torn(bag) and not is_replaced(bag)], notes)


def is_torn(bag: Path) -> bool:
    """Return whether the writer of a bag in MCAP is gone and has not closed it."""
    return not is_being_recorded(bag) and is_truncated(bag)


def is_replaced(bag: Path) -> bool:
    """Return whether a bag is torn, and its recovered copy is as new as its data."""
    written_ns = [file.stat().st_mtime_ns for file in mcap_files(recovered_path(bag))]
    newest_ns = max((file.stat().st_mtime_ns for file in mcap_files(bag)), default=0)
    return is_torn(bag) and max(written_ns, default=0) >= newest_ns


def is_unindexed(bag: Path) -> bool:
    """Return whether a bag in SQLite has no metadata, as after a kill."""
    holds_it = bag.is_dir() and any(bag.glob("*.db3")) and not mcap_files(bag)
    return holds_it and not _has_metadata(bag)


def _without(found: list[Path], why_not: Callable[[Path], str]) -> Recordings:
    reasons = {bag: why_not(bag) for bag in found}
    notes = [f"{bag.name}: left out, because {why}" for bag, why in reasons.items() if why]
    return Recordings([bag for bag, why in reasons.items() if not why], notes)


def _is_whole(bag: Path) -> bool:
    return bool(mcap_files(bag)) and not is_truncated(bag)


def _has_metadata(bag: Path) -> bool:
    return (bag / "metadata.yaml").exists()


def _is_bag(path: Path) -> bool:
    if path.is_dir():
        return _has_metadata(path) or bool(mcap_files(path)) or is_unindexed(path)
    return path.suffix in (".mcap", ".db3") and path.is_file()
