"""The list of a LeRobot dataset's episodes: where the rows and frames of each are.

Version 3.0 lists them in Parquet files, several episodes in a file; version 2.1 in JSON lines, with
one file an episode.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robo_rl.core.errors import DataError, first_problem
from robo_rl.data.lerobot.info import AGAIN, Info, file_of
from robo_rl.data.lerobot.parquet import read_rows

_Model = TypeVar("_Model", bound=BaseModel)


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
    numbers = [each.number for each in listed]
    if len(listed) != info.total_episodes or numbers != list(range(len(listed))):
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


class _Row(BaseModel):
    """What both versions say of an episode."""

    model_config = ConfigDict(extra="ignore")

    episode_index: int = Field(ge=0, le=1 << 32)
    length: int = Field(ge=1, le=1 << 32)
    tasks: list[str] | None


class _Place(BaseModel):
    """A file of version 3.0."""

    chunk_index: int = Field(ge=0, le=1 << 32)
    file_index: int = Field(ge=0, le=1 << 32)
    from_timestamp: float = Field(default=0.0, ge=0.0, le=1e9)


def _of_v3(root: Path, info: Info) -> Iterator[EpisodeEntry]:
    cameras = [key for key, each in info.features.items() if each.dtype == "video"]
    columns = ["episode_index", "length", "tasks", "data/chunk_index", "data/file_index"]
    columns += [f"videos/{key}/{part}" for key in cameras for part in _Place.model_fields]
    for file in sorted((root / "meta/episodes").glob("chunk-*/file-*.parquet")):
        for number, row in enumerate(read_rows(file, columns, info.total_episodes)):
            where = f"{file} row {number}"
            entry = _checked(_Row, row, where)
            place = _checked(_Place, _under("data/", row), where)
            videos: dict[str, VideoPart] = {}
            for key in cameras:
                seen = _checked(_Place, _under(f"videos/{key}/", row), where)
                video = _file(root, info.video_path or "", seen, key)
                videos[key] = VideoPart(video, seen.from_timestamp)
            yield _entry(entry, _file(root, info.data_path, place), videos)


def _of_v21(root: Path, info: Info) -> Iterator[EpisodeEntry]:
    cameras = [key for key, each in info.features.items() if each.dtype == "video"]
    for where, row in _lines(root / "meta/episodes.jsonl"):
        entry = _checked(_Row, row, where)
        number = entry.episode_index
        place = {"episode_chunk": number // info.chunks_size, "episode_index": number}
        videos = {
            key: VideoPart(file_of(root, info.video_path or "", video_key=key, **place), 0.0)
            for key in cameras
        }
        yield _entry(entry, file_of(root, info.data_path, **place), videos)


def _entry(row: _Row, rows: Path, videos: dict[str, VideoPart]) -> EpisodeEntry:
    return EpisodeEntry(row.episode_index, row.length, tuple(row.tasks or ()), rows, videos)


def _file(root: Path, template: str, place: _Place, key: str = "") -> Path:
    chunk, file = place.chunk_index, place.file_index
    return file_of(root, template, chunk_index=chunk, file_index=file, video_key=key)


def _under(prefix: str, row: dict[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): each for key, each in row.items() if key.startswith(prefix)}


def _checked(model: type[_Model], row: Any, where: str) -> _Model:
    try:
        return model.model_validate(row)
    except ValidationError as error:
        raise DataError(first_problem(error, "row"), where=where) from None


def _lines(file: Path) -> Iterator[tuple[str, Any]]:
    """Yield place and content of each JSON line."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"unreadable: {error}", where=file, hint=AGAIN) from None
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            yield f"{file}:{number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"damaged line: {error}", where=f"{file}:{number}") from None
