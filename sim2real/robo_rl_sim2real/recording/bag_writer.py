"""Writes a rosbag2 with MCAP storage that stays recoverable up to its last flush.

rosbags closes a chunk at 1 MiB and writes the index at the end. ``flush`` closes the chunk and
syncs it to the disk, so a killed process only loses later messages. ``recovery`` makes a complete
bag of a truncated file. The file is locked until the bag is closed or abandoned.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from rosbags.interfaces import (
    Connection,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.rosbag2.storage_mcap import zstd
from rosbags.typesys.store import Typestore

from robo_rl_sim2real.recording.message_encoder import EncodedMessage
from robo_rl_sim2real.recording.writer_lock import lock_recording

_VERSION = 8  # of metadata.yaml, for Iron and later
_NEVER = QosTime(0, 0)
_LATCHED = Qos(
    QosHistory.KEEP_LAST,
    1,
    QosReliability.RELIABLE,
    QosDurability.TRANSIENT_LOCAL,
    _NEVER,
    _NEVER,
    QosLiveliness.AUTOMATIC,
    _NEVER,
    False,
)


class BagWriter:
    """A bag that is being written, in one thread.

    Args:
        path: Folder to create.
        store: Interfaces of its messages.
        latched: Topics whose last message reaches late subscribers during playback.

    Raises:
        OSError: The folder cannot be created.
    """

    def __init__(self, path: Path, store: Typestore, latched: tuple[str, ...] = ()) -> None:
        self.path, self._store, self._latched = path, store, latched
        self._writer = Writer(path, version=_VERSION, storage_plugin=StoragePlugin.MCAP)
        self._writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
        self._writer.open()
        storage: Any = self._writer.storage
        storage.compressor = _with_checksum
        self._lock = lock_recording(storage.path)
        self._ways: dict[str, Connection] = {}
        self._unflushed = False

    def write(self, message: EncodedMessage) -> None:
        """Write a message.

        Raises:
            OSError: Writing to the disk fails.
        """
        way = self._ways.get(message.topic) or self._add(message)
        self._writer.write(way, message.time_ns, message.cdr)
        self._unflushed = True

    def flush(self) -> None:
        """Sync all messages to the disk.

        Raises:
            OSError: Writing to the disk fails.
        """
        storage: Any = self._writer.storage
        if self._unflushed:
            storage.close_chunk()
            self._unflushed = False
        storage.bio.flush()
        os.fsync(storage.bio.fileno())

    def close(self) -> None:
        """Write index and metadata.

        Raises:
            OSError: Writing to the disk fails.
        """
        self._writer.close()
        self._unlock()

    def discard(self) -> None:
        """Abandon the bag as it is, without errors from the disk."""
        with contextlib.suppress(OSError):
            self._writer.abort()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def _add(self, message: EncodedMessage) -> Connection:
        qos = [_LATCHED] if message.topic in self._latched else []
        way = self._writer.add_connection(
            message.topic,
            message.interface,
            typestore=self._store,
            offered_qos_profiles=qos,
        )
        self._ways[message.topic] = way
        return way


def _with_checksum(data: bytes) -> bytes:
    """Compress with a checksum, so that readers detect changed bits."""
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})
