"""Commit log of a store: one sealed JSON line per episode, appended after its data.

An episode exists when its line is complete. An incomplete last line is an interrupted commit; it is
ignored, and the next append overwrites it. A complete line with a wrong seal is damage and an
error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictBool, ValidationError

from robo_rl.core.atomic_files import append_file, truncate_file, write_file
from robo_rl.core.checksummed_json import seal, unseal
from robo_rl.core.errors import DataError
from robo_rl.core.file_lock import lock_file
from robo_rl.data.store.schema import REPAIR_HINT, refuse_link

LOG_FILE = "commits.jsonl"
QUARANTINE_FILE = "commits.quarantine.jsonl"


class EpisodeRecord(BaseModel):
    """A committed episode.

    Args:
        start: First row.
        length: Number of steps L.
        success: Whether the task was solved.
        seed: Seed of the episode's start state, if there was one.
        meta: Further data about the episode.
        sha256: Hash of its rows in all arrays.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: int = Field(ge=0, le=1 << 48)
    length: int = Field(ge=1, le=1 << 48)
    success: StrictBool
    seed: int | None = None
    meta: dict[str, JsonValue] = {}
    sha256: str

    @property
    def stop(self) -> int:
        """The row after the last one."""
        return self.start + self.length


class Quarantined(BaseModel):
    """An episode that was removed from the log.

    Args:
        reason: Why it was removed.
        keep_rows: No episode may be written before this row, so that its data stay unchanged.
        line: Its line in the log, with undecodable bytes escaped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: str
    keep_rows: int = Field(ge=0)
    line: str


class DamagedLine(NamedTuple):
    """A complete but invalid line: its number from 1, its bytes, and the problem."""

    number: int
    line: bytes
    problem: str


class CommitLog(NamedTuple):
    """Content of a log: valid records, damaged lines, and bytes of complete and torn lines."""

    records: list[EpisodeRecord]
    damaged: list[DamagedLine]
    whole_bytes: int
    torn_bytes: int
    ends_in_newline: bool


def read_log(root: Path) -> CommitLog:
    """Read the log and collect damaged lines.

    Raises:
        DataError: The log is a link or cannot be read.
    """
    file = root / LOG_FILE
    refuse_link(file)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataError(
            f"the commit log cannot be read: {error.strerror}",
            where=file,
            hint="it alone says which rows are episodes; take it from a copy of the store",
        ) from None
    lines = data.split(b"\n")
    tail = lines.pop()
    if tail and not _is_torn(tail):
        lines.append(tail)
        tail = b""
    log = CommitLog([], [], len(data) - len(tail), len(tail), data[-1:] in (b"", b"\n"))
    for number, line in enumerate(lines, start=1):
        _sort_in(log, number, line)
    return log


def read_records(root: Path) -> list[EpisodeRecord]:
    """Read the records of the log; a torn end is ignored, damage is an error.

    Raises:
        DataError: There is no log, or a line is damaged.
    """
    log = read_log(root)
    if log.damaged:
        number, _, problem = log.damaged[0]
        raise DataError(
            f"commit record {problem}", where=f"{root / LOG_FILE}:{number}", hint=REPAIR_HINT
        )
    return log.records


def append_records(root: Path, records: Sequence[EpisodeRecord]) -> None:
    """Commit episodes; they are visible and durable on return.

    Raises:
        OSError: They cannot be written; none is visible.
    """
    end_log_cleanly(root)
    append_file(root / LOG_FILE, b"".join(map(_line, records)))


def end_log_cleanly(root: Path) -> int:
    """Remove a torn end and add a missing last newline; return the number of removed bytes."""
    log = read_log(root)
    if log.torn_bytes:
        truncate_file(root / LOG_FILE, log.whole_bytes)
    elif not log.ends_in_newline:
        append_file(root / LOG_FILE, b"\n")
    return log.torn_bytes


def rewrite_log(root: Path, records: Sequence[EpisodeRecord]) -> None:
    """Replace the whole log by these records."""
    write_file(root / LOG_FILE, b"".join(map(_line, records)))


def read_quarantine(root: Path) -> list[Quarantined]:
    """Return the episodes that were removed from the log.

    Raises:
        DataError: The file is a link or damaged.
    """
    file = root / QUARANTINE_FILE
    refuse_link(file)
    if not file.exists():
        return []
    lines = file.read_bytes().splitlines()
    try:
        return [Quarantined.model_validate(unseal(line)) for line in lines]
    except (ValueError, RecursionError) as error:
        raise DataError(f"unreadable: {error}", where=file, hint="move it away") from None


def quarantine(root: Path, episodes: Sequence[Quarantined]) -> None:
    """Add episodes to the quarantine, without duplicates."""
    there = read_quarantine(root)
    new = [episode for episode in episodes if episode.line not in {old.line for old in there}]
    write_file(root / QUARANTINE_FILE, b"".join(map(_line, [*there, *new])))


def record_line(record: EpisodeRecord) -> str:
    """Return a record's line in the log."""
    return _line(record).decode().rstrip("\n")


@contextlib.contextmanager
def writing(root: Path) -> Generator[None]:
    """Hold the store's write lock, which the system releases when the process dies.

    Raises:
        DataError: Another process is writing, or the lock is a link.
    """
    refuse_link(root / ".lock")
    try:
        lock = lock_file(root / ".lock")
    except BlockingIOError:
        raise DataError(
            "another process is writing to the store",
            where=root,
            hint="wait for it, or give each writer a store of its own",
        ) from None
    with lock:
        yield


def _line(record: BaseModel) -> bytes:
    return seal(record.model_dump(mode="json")) + b"\n"


def _is_torn(tail: bytes) -> bool:
    """Return whether the last line, which has no newline, is an incomplete record.

    A complete record is committed even without its newline. A complete record with another byte in
    place of the newline is damaged and must not count as an interrupted commit.
    """
    return not (_is_sealed(tail) or _is_sealed(tail[:-1]))


def _is_sealed(line: bytes) -> bool:
    try:
        unseal(line)
    except (ValueError, RecursionError):
        return False
    return True


def _sort_in(log: CommitLog, number: int, line: bytes) -> None:
    try:
        record = EpisodeRecord.model_validate(unseal(line))
        if log.records and record.start < log.records[-1].stop:
            raise ValueError(f"starts at row {record.start}, inside of the episode before it")
    except ValidationError as error:
        log.damaged.append(DamagedLine(number, line, f"is unusable: {error.errors()[0]['msg']}"))
    except (ValueError, RecursionError) as error:
        log.damaged.append(DamagedLine(number, line, f"is damaged: {error}"))
    else:
        log.records.append(record)
