"""The list of a LeRobot dataset's episodes: where the rows and frames of each are.

Version 3.0 lists them in Parquet files, several episodes in a file; version 2.1 in JSON lines, with
one file an episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from robo_rl.core.errors import DataError
from robo_rl.data.lerobot.info import Info, file_of
from robo_rl.data.lerobot.tables import read_table


class VideoPart(NamedTuple):
    """The file with an episode's frames of a camera, and the time of the first one in it, s."""

    file: Path
    begin_s: float


class EpisodeEntry(NamedTuple):
    """An episode.

    Args:
        number: Its number.
        length: Number of rows.
        tasks: Instructions.
        rows: File with its rows.
        videos: Feature → where its frames are.
    """

    number: int
    length: int
    tasks: tuple[str, ...]
    rows: Path
    videos: dict[str, VideoPart]


def read_episodes(root: Path, info: Info) -> list[EpisodeEntry]:
    """Return the episodes of a dataset, in order.

    Raises:
        DataError: The list is missing or damaged, or disagrees with the description.
    """
    listed = list(_of_v3(root, info) if info.is_v3 else _of_v21(root, info))
    listed.sort(key=lambda each: each.number)
    if [each.number for each in listed] != list(range(info.total_episodes)):
        raise DataError(
            "the list of episodes does not fit meta/info.json",
            where=root,
            expected=f"episodes 0 to {info.total_episodes - 1}",
            found=f"{len(listed)} episodes",
        )
    if (rows := sum(each.length for each in listed)) != info.total_frames:
        raise DataError(
            "the lengths of the episodes do not fit meta/info.json",
            where=root,
            expected=f"{info.total_frames} rows",
            found=rows,
        )
    return listed


def _of_v3(root: Path, info: Info) -> Iterator[EpisodeEntry]:
    cameras = [key for key, each in info.features.items() if each.dtype == "video"]
    columns = ["episode_index", "length", "tasks", "data/chunk_index", "data/file_index"]
    parts = ("chunk_index", "file_index", "from_timestamp")
    columns += [f"videos/{key}/{part}" for key in cameras for part in parts]
    for file in sorted((root / "meta/episodes").glob("chunk-*/file-*.parquet")):
        for row in read_table(file, columns).to_pylist():
            videos = {key: _video(root, info, key, row) for key in cameras}
            place = {
                "chunk_index": row["data/chunk_index"],
                "file_index": row["data/file_index"],
            }
            rows = file_of(root, info.data_path, **place)
            yield _entry(file, row, rows, videos)


def _video(root: Path, info: Info, key: str, row: dict[str, Any]) -> VideoPart:
    place = {part: row[f"videos/{key}/{part}"] for part in ("chunk_index", "file_index")}
    file = file_of(root, info.video_path or "", video_key=key, **place)
    return VideoPart(file, float(row[f"videos/{key}/from_timestamp"]))


def _of_v21(root: Path, info: Info) -> Iterator[EpisodeEntry]:
    cameras = [key for key, each in info.features.items() if each.dtype == "video"]
    file = root / "meta/episodes.jsonl"
    for row in _lines(file):
        number = int(row["episode_index"])
        place = {"episode_chunk": number // info.chunks_size, "episode_index": number}
        rows = file_of(root, info.data_path, **place)
        videos = {
            key: VideoPart(file_of(root, info.video_path or "", video_key=key, **place), 0.0)
            for key in cameras
        }
        yield _entry(file, row, rows, videos)


def _entry(
    file: Path, row: dict[str, Any], rows: Path, videos: dict[str, VideoPart]
) -> EpisodeEntry:
    number, length = int(row["episode_index"]), int(row["length"])
    if length < 1 or number < 0:
        raise DataError("an episode without rows", where=file, found=f"episode {number}")
    return EpisodeEntry(number, length, tuple(map(str, row["tasks"] or ())), rows, videos)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"unreadable: {error.strerror or error}", where=file) from None
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
            if not {"episode_index", "length", "tasks"} <= set(row):
                raise ValueError("episode_index, length and tasks are needed")
        except (ValueError, TypeError) as error:
            raise DataError(f"damaged line: {error}", where=f"{file}:{number}") from None
        yield row
