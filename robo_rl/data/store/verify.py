"""Finds all damage in a store, and repairs the store without losing the rest.

``verify`` reads every committed byte. ``repair`` never writes into data. It moves the records of
damaged episodes to the quarantine, where their rows stay unchanged. It rewrites damaged metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from robo_rl.core.errors import DataError
from robo_rl.data.store.action_limits import LimitViolations, find_limit_violations
from robo_rl.data.store.arrays import RowArray, create_array, group_metadata, write_metadata
from robo_rl.data.store.commits import (
    LOG_FILE,
    CommitLog,
    EpisodeRecord,
    Quarantined,
    end_log_cleanly,
    quarantine,
    read_log,
    read_quarantine,
    record_line,
    rewrite_log,
    writing,
)
from robo_rl.data.store.episode import first_early_end, first_not_finite, hash_rows
from robo_rl.data.store.schema import (
    METADATA_FILE,
    StoreSchema,
    align_up,
    array_path,
    read_metadata,
    read_schema,
    refuse_link,
)

_CHUNK = re.compile(r"c\.[0-9]{1,12}(\.0)*")


class Damage(NamedTuple):
    """A damaged file, the problem, and its episode's index in the log, if any."""

    file: Path
    problem: str
    episode: int | None = None


class VerifyReport(NamedTuple):
    """Result of ``verify``.

    Args:
        path: The store.
        episodes: Number of committed episodes.
        rows: Number of their steps.
        chunks: Number of checked chunk files.
        damage: All damage; empty for an intact store.
        torn_bytes: Bytes of an interrupted commit at the end of the log; harmless.
        quarantined: Number of episodes that earlier repairs removed.
        outside: Actions outside their limits in undamaged episodes, which are not damage.
    """

    path: Path
    episodes: int
    rows: int
    chunks: int
    damage: tuple[Damage, ...]
    torn_bytes: int
    quarantined: int
    outside: LimitViolations

    @property
    def ok(self) -> bool:
        """Whether every committed byte is intact."""
        return not self.damage


class Repair(NamedTuple):
    """Result of ``repair``.

    Args:
        quarantined: Reason of each quarantined episode.
        rewritten: Metadata files that were rewritten.
        torn_bytes: Bytes of an interrupted commit that were removed from the end of the log.
        episodes: Number of remaining episodes.
    """

    quarantined: tuple[str, ...]
    rewritten: tuple[Path, ...]
    torn_bytes: int
    episodes: int


def verify(path: str | Path) -> VerifyReport:
    """Check metadata, log, and every committed chunk and row; find actions outside their limits.

    Raises:
        DataError: Schema or log is unreadable, so nothing can be checked.
    """
    root = Path(path)
    schema, log = read_schema(root), read_log(root)
    arrays, damage = _open_arrays(root, schema)
    damage += [Damage(root / LOG_FILE, f"line {n}: record {what}") for n, _, what in log.damaged]
    readable = log.records if len(arrays) == len(schema.arrays) else []
    files = [array.count_chunk_files() for array in arrays]
    for index, record in enumerate(readable):
        damage += [found._replace(episode=index) for found in _check_episode(arrays, files, record)]
    spoilt = {found.episode for found in damage}
    whole = [(i, record) for i, record in enumerate(readable) if i not in spoilt]
    chunks = sum(len(_chunks(record, schema.chunk_rows)) for record in log.records)
    return VerifyReport(
        root,
        len(log.records),
        sum(record.length for record in log.records),
        chunks * len(arrays),
        tuple(damage),
        log.torn_bytes,
        len(read_quarantine(root)),
        _outside(root, schema, whole),
    )


def _outside(
    root: Path, schema: StoreSchema, whole: list[tuple[int, EpisodeRecord]]
) -> LimitViolations:
    act = RowArray(root, "act", schema) if whole else None
    rows = ((i, act.read(record.start, record.stop)) for i, record in whole if act)
    return find_limit_violations(schema.act_spec, rows)


def repair(path: str | Path) -> Repair:
    """Make a store usable again: intact episodes stay, damaged ones are quarantined.

    Raises:
        DataError: Schema or log is unreadable, another process is writing, or the disk is full.
    """
    root = Path(path)
    schema = read_schema(root)
    try:
        with writing(root):
            return _repair(root, schema)
    except OSError as error:
        raise DataError(f"could not be repaired: {error.strerror}", where=error.filename) from error


def _repair(root: Path, schema: StoreSchema) -> Repair:
    torn_bytes = end_log_cleanly(root)
    rewritten = _mend_metadata(root, schema)
    log = read_log(root)
    bad: dict[int, Damage] = {}
    for found in verify(root).damage:
        if found.episode is not None:
            bad.setdefault(found.episode, found)
    out = _quarantined(root, schema, log, bad)
    good = [record for index, record in enumerate(log.records) if index not in bad]
    if out:
        quarantine(root, out)
        rewrite_log(root, good)
    return Repair(tuple(entry.reason for entry in out), tuple(rewritten), torn_bytes, len(good))


def _quarantined(
    root: Path, schema: StoreSchema, log: CommitLog, bad: Mapping[int, Damage]
) -> list[Quarantined]:
    # A damaged line does not show its rows, so no existing row may be overwritten.
    rows = max(RowArray(root, key, schema).rows for key in schema.arrays)
    lines = [
        Quarantined(
            reason=f"{LOG_FILE} line {number}: record {problem}",
            keep_rows=rows,
            line=line.decode(errors="backslashreplace"),
        )
        for number, line, problem in log.damaged
    ]
    episodes = [
        Quarantined(
            reason=f"episode {index}: {found.file.relative_to(root)}: {found.problem}",
            keep_rows=log.records[index].stop,
            line=record_line(log.records[index]),
        )
        for index, found in bad.items()
    ]
    return lines + episodes


def _open_arrays(root: Path, schema: StoreSchema) -> tuple[list[RowArray], list[Damage]]:
    opened = [_open_array(root, key, schema) for key in schema.arrays]
    arrays = [array for array in opened if isinstance(array, RowArray)]
    damage = [found for found in opened if isinstance(found, Damage)]
    if (group := _check_group(root)) is not None:
        damage.append(group)
    return arrays, damage


def _open_array(root: Path, key: str, schema: StoreSchema) -> RowArray | Damage:
    try:
        return RowArray(root, key, schema)
    except DataError as error:
        return Damage(array_path(root, key) / METADATA_FILE, error.problem)


def _mend_metadata(root: Path, schema: StoreSchema) -> list[Path]:
    """Rewrite unusable array metadata from the schema."""
    refuse_link(root / "obs")
    stop = max((record.stop for record in read_log(root).records), default=0)
    rewritten: list[Path] = []
    for key in schema.arrays:
        if not _is_usable(root, key, schema, stop):
            rows = max(align_up(stop, schema.chunk_rows), _rows_on_disk(root, key, schema))
            create_array(root, key, schema, rows)
            rewritten.append(array_path(root, key) / METADATA_FILE)
    if (group := _check_group(root)) is not None:
        write_metadata(group.file.parent, group_metadata({}))
        rewritten.append(group.file)
    return rewritten


def _is_usable(root: Path, key: str, schema: StoreSchema, stop: int) -> bool:
    refuse_link(array_path(root, key))
    try:
        return RowArray(root, key, schema).rows >= stop
    except DataError:
        return False


def _rows_on_disk(root: Path, key: str, schema: StoreSchema) -> int:
    files = array_path(root, key).glob("c.*")
    chunks = [int(file.name.split(".")[1]) for file in files if _CHUNK.fullmatch(file.name)]
    return (max(chunks, default=-1) + 1) * schema.chunk_rows


def _check_group(root: Path) -> Damage | None:
    file = root / "obs" / METADATA_FILE
    try:
        read_metadata(file)
    except DataError as error:
        return Damage(file, error.problem)
    return None


def _check_episode(arrays: list[RowArray], files: list[int], record: EpisodeRecord) -> list[Damage]:
    for array, there in zip(arrays, files, strict=True):
        chunks = _chunks(record, array.chunk_rows)
        if record.stop > array.rows or len(chunks) > there:
            return [
                Damage(array.path, f"lacks rows {record.start}–{record.stop - 1} of its record")
            ]
    damage = [found for array in arrays for found in _check_chunks(array, record)]
    return damage or _check_rows(arrays, record)


def _check_chunks(array: RowArray, record: EpisodeRecord) -> Iterator[Damage]:
    for chunk in _chunks(record, array.chunk_rows):
        if problem := array.check_chunk(chunk):
            yield Damage(array.chunk_file(chunk), problem)


def _check_rows(arrays: list[RowArray], record: EpisodeRecord) -> list[Damage]:
    try:
        rows = {array.key: array.read(record.start, record.stop) for array in arrays}
    except DataError as error:
        return [Damage(arrays[0].path.parent, f"{error.where}: {error.problem}")]
    if hash_rows(rows) != record.sha256:
        where = f"rows {record.start}–{record.stop - 1}"
        return [Damage(arrays[0].path.parent, f"{where} do not match the hash in their record")]
    if (row := first_not_finite(rows["act"])) is not None:
        act = next(array for array in arrays if array.key == "act")
        row += record.start
        return [Damage(act.chunk_file(row // act.chunk_rows), f"action in row {row} is not finite")]
    if (end := first_early_end(rows)) is not None:
        key, row = end[0], end[1] + record.start
        flags = next(array for array in arrays if array.key == key)
        problem = f"'{key}' in row {row}, before the episode's last row {record.stop - 1}"
        return [Damage(flags.chunk_file(row // flags.chunk_rows), problem)]
    return []


def _chunks(record: EpisodeRecord, chunk_rows: int) -> range:
    return range(record.start // chunk_rows, align_up(record.stop, chunk_rows) // chunk_rows)
