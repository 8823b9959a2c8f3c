"""Detects truncated recordings of a killed writer and recovers their complete records.

An MCAP file consists of a magic, records (opcode, length, data), a footer record, and the magic
again. A truncated file has no footer and possibly an incomplete last record.

Source: MCAP format specification, https://mcap.dev/spec.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Generator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from rosbags.rosbag2.storage_mcap import McapReader

from robo_rl.core.errors import DataError
from robo_rl_sim2real.messages.rosbags_types import type_store
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.message_encoder import EncodedMessage
from robo_rl_sim2real.recording.topics import RUN
from robo_rl_sim2real.recording.writer_lock import is_locked

_MAGIC = b"\x89MCAP0\r\n"
_HEAD = struct.Struct("<BQ")
_DATA_END = _HEAD.pack(0x0F, 4) + bytes(4)
_FOOTER = _HEAD.pack(0x02, 20) + bytes(20)
_BLOCK = 1 << 20


def mcap_files(bag: Path) -> list[Path]:
    """Return the MCAP files of a bag, in order of their names."""
    if bag.is_dir():
        return sorted(bag.glob("*.mcap"))
    return [bag] if bag.suffix == ".mcap" else []


def is_being_recorded(bag: Path) -> bool:
    """Return whether a running ``BagWriter`` writes a bag; it also looks truncated then."""
    return any(is_locked(file) for file in mcap_files(bag))


def is_truncated(bag: Path) -> bool:
    """Return whether a bag in MCAP was never closed, or is truncated."""
    files = mcap_files(bag)
    unclosed = bag.is_dir() and not (bag / "metadata.yaml").exists()
    return bool(files) and (unclosed or any(not _closed(file) for file in files))


def recovered_path(bag: Path) -> Path:
    """Return the path of a truncated bag's recovered copy."""
    return bag.with_name(f"{bag.name if bag.is_dir() else bag.stem}-mended")


def recover_bag(bag: Path, out: Path) -> int:
    """Write the complete records of a truncated bag to a new bag; the old one stays unchanged.

    Topics whose interfaces are not ROS 2's own are skipped. ``out`` appears once it is complete; a
    failed attempt leaves nothing.

    Args:
        bag: Truncated bag.
        out: Folder to create.

    Returns:
        The number of messages.

    Raises:
        DataError: The bag is being recorded, no record is complete, ``out`` exists, or it cannot be
            written.
    """
    if is_being_recorded(bag):
        raise DataError("is being recorded", where=bag, hint="stop the recording first")
    if out.exists():
        raise DataError("is there already", where=out, hint="remove it to mend the recording again")
    try:
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".tmp-mend-") as folder:
            beside = Path(folder, out.name)
            number = _write_whole(bag, beside)
            beside.rename(out)
    except OSError as error:
        raise DataError(
            f"cannot be written: {error.strerror or error}", where=out, hint="free some disk"
        ) from error
    return number


def _write_whole(bag: Path, out: Path) -> int:
    store, number = type_store("jazzy"), 0
    with closing(_all_messages(bag, out.parent)) as whole:
        messages = (message for message in whole if message.interface in store.fielddefs)
        first = next(messages, None)
        if first is None:
            raise DataError("nothing in it is whole", where=bag)
        made = BagWriter(out, store, (RUN,))
        try:
            for number, message in enumerate(chain([first], messages), start=1):  # noqa: B007
                made.write(message)
            made.close()
        except OSError:
            made.discard()
            raise
    return number


def _all_messages(bag: Path, beside: Path) -> Generator[EncodedMessage]:
    for file in mcap_files(bag):
        yield from _messages(file, beside)


def _closed(file: Path) -> bool:
    with file.open("rb") as data:
        size = data.seek(0, os.SEEK_END)
        data.seek(max(size - len(_MAGIC), 0))
        return size > 2 * len(_MAGIC) and data.read() == _MAGIC


def _messages(file: Path, beside: Path) -> Generator[EncodedMessage]:
    """Yield the readable messages of the complete records; ``beside`` holds a temporary copy."""
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        cut = Path(folder, "cut.mcap")
        if not _copy_whole(file, cut):
            return
        reader = McapReader(cut)
        try:
            reader.open()
            for way, time_ns, cdr in reader.messages_scan(reader.connections):
                yield EncodedMessage(way.topic, way.msgtype, time_ns, bytes(cdr))
        except Exception:  # after a power cut, a record's data may be missing
            return
        finally:
            if reader.bio is not None:
                reader.close()


def _copy_whole(file: Path, cut: Path) -> bool:
    """Copy the complete records and append a footer; return whether there are any."""
    with file.open("rb") as source, cut.open("wb") as target:
        left = _whole_bytes(source)
        source.seek(0)
        target.write(source.read(min(left, len(_MAGIC))))
        left -= len(_MAGIC)
        while left > 0:
            block = source.read(min(left, _BLOCK))
            target.write(block)
            left -= len(block)
        target.write(_DATA_END + _FOOTER + _MAGIC)
    return cut.stat().st_size > len(_MAGIC) + len(_DATA_END) + len(_FOOTER) + len(_MAGIC)


def _whole_bytes(source: BinaryIO) -> int:
    """Return the length of the complete data records at the start, in bytes."""
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    if source.read(len(_MAGIC)) != _MAGIC:
        return 0
    while True:
        begun = source.tell()
        head = source.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return begun
        opcode, length = _HEAD.unpack(head)
        ends = opcode in (0x02, 0x0F)  # footer and end of data
        if ends or begun + _HEAD.size + length > size:
            return begun
        source.seek(length, os.SEEK_CUR)
