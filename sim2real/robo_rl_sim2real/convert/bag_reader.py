"""Reads rosbag2 recordings in MCAP or SQLite; a damaged bag raises one DataError.

Times are in seconds since the bag's first message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rosbags.highlevel import AnyReader
from rosbags.rosbag2.storage_mcap import McapReader
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Reader

from robo_rl.core.errors import DataError, RoboRlError
from robo_rl.core.suggestions import did_you_mean
from robo_rl_sim2real.convert.recordings import REINDEX, is_unindexed
from robo_rl_sim2real.messages.kinds import MsgType, to_reading
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.rosbags_types import type_store
from robo_rl_sim2real.recording.recovery import is_being_recorded, is_truncated

_MEND = "`robo-rl data recover` writes what is whole of it to a recording beside it"


class BagMessage(NamedTuple):
    """A message of a bag, which arrived at ``reading.stamp_s``.

    Args:
        topic: Name of the topic.
        reading: Content of the message.
        header_s: Time in its header, possibly of another clock; NaN without one, or for zeros.
    """

    topic: str
    reading: Reading
    header_s: float = math.nan

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a JSON text.

        Raises:
            ValueError: The text is no JSON.
        """
        return json.loads(str(self.reading.fields["data"]))


class BagReader:
    """An open bag; see ``open_bag``."""

    def __init__(self, path: Path, reader: AnyReader) -> None:
        self.path, self._reader = path, reader
        self._begun_ns = reader.start_time

    @property
    def kinds(self) -> dict[str, str]:
        """Topic → interface."""
        return {way.topic: way.msgtype for way in self._reader.connections if way.msgcount}

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """Yield the messages of some topics in the order of their times.

        Raises:
            DataError: A topic is missing or its interface is unknown, a message is inconsistent, or
                the file has no order.
        """
        ways = [way for way in self._reader.connections if way.topic in topics and way.msgcount]
        known = {kind.value: kind for kind in MsgType}
        for topic in topics:
            self._check(topic, known)
        last_s = 0.0
        try:
            for way, time_ns, cdr in self._reader.messages(ways) if ways else ():
                at_s = (time_ns - self._begun_ns) * 1e-9
                message = self._reader.deserialize(cdr, way.msgtype)
                reading = to_reading(known[way.msgtype], message, at_s)
                yield BagMessage(way.topic, reading, self._header_s(message))
                last_s = at_s
        except GeneratorExit:
            raise
        except RoboRlError as error:
            raise DataError(f"{last_s:.3f} s into it: {error}", where=self.path) from None
        except Exception as error:  # a damaged file can raise any error
            raise _unreadable(self.path, f"{last_s:.3f} s into it: {_said(error)}") from None

    def write_order(self) -> Iterator[tuple[str, float]]:
        """Yield topic and time of every message, in the order in which they were written.

        Raises:
            DataError: The file is damaged.
        """
        last_s = 0.0
        try:
            readers: Any = self._reader.readers
            for storage in (reader.storage for reader in readers):
                for part in getattr(storage, "storages", [storage]):
                    for topic, time_ns in _WRITTEN[type(part)](part):
                        last_s = (time_ns - self._begun_ns) * 1e-9
                        yield topic, last_s
        except GeneratorExit:
            raise
        except Exception as error:  # a damaged file can raise any error
            raise _unreadable(self.path, f"{last_s:.3f} s into it: {_said(error)}") from None

    def _header_s(self, message: Any) -> float:
        stamp = getattr(getattr(message, "header", None), "stamp", None)
        if stamp is None or not (stamp.sec or stamp.nanosec):  # zeros: the sender sets no time
            return math.nan
        return (stamp.sec * 1_000_000_000 + stamp.nanosec - self._begun_ns) * 1e-9

    def _check(self, topic: str, known: Collection[str]) -> None:
        found = self.kinds.get(topic)
        if found is None:
            raise DataError(
                f"nothing came on '{topic}'",
                where=self.path,
                hint=did_you_mean(topic, self.kinds),
            )
        if found not in known:
            raise DataError(
                f"topic '{topic}'", where=self.path, expected=sorted(known), found=found
            )


@contextmanager
def open_bag(path: Path) -> Generator[BagReader]:
    """Open a bag.

    Raises:
        DataError: The path is no bag, or the bag is truncated or still being recorded.
    """
    _demand_closed(path)
    reader = None
    try:
        reader = AnyReader([path], default_typestore=type_store("jazzy"))
        reader.open()
    except Exception as error:  # a damaged file can raise any error
        raise _unreadable(path, _said(error)) from None
    try:
        yield BagReader(path, reader)
    finally:
        reader.close()


def _demand_closed(path: Path) -> None:
    if is_being_recorded(path):
        hint = "stop the recording, or name the other recordings one by one"
        raise DataError("is being recorded", where=path, hint=hint)
    if is_truncated(path) or is_unindexed(path):
        hint = REINDEX if is_unindexed(path) else _MEND
        raise DataError("the recording was cut off", where=path, hint=hint)


def _in_mcap(part: McapReader) -> Iterator[tuple[str, int]]:
    return ((way.topic, time_ns) for way, time_ns, _ in part.messages_scan(part.connections))


def _in_sqlite(part: Sqlite3Reader) -> Iterator[tuple[str, int]]:
    topics = {way.id: way.topic for way in part.connections}
    rows: Any = part.dbconn and part.dbconn.execute(_BY_ROW)
    return ((topics[topic], time_ns) for topic, time_ns in rows)


_BY_ROW = "SELECT topic_id, timestamp FROM messages ORDER BY id"
_WRITTEN: dict[type, Callable[[Any], Iterator[tuple[str, int]]]] = {
    McapReader: _in_mcap,
    Sqlite3Reader: _in_sqlite,
}


def _unreadable(path: Path, what: str) -> DataError:
    return DataError(f"cannot be read as a rosbag2: {what}", where=path, hint=_MEND)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
