"""Heartbeats in shared memory, which another process can read after the writer's death.

A record, little endian: magic, version, phase, joints n, number, time in s; position, velocity and
acceleration, n of each; the CRC-32 of all of these. Records alternate between two places. The
reader takes the later of the complete records. While one record is written, the previous one stays
readable. If the writer dies during a write, it has not yet acted on the incomplete record.

Shapes: n joints.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.control.commands.braking import Motion

_MAGIC, _VERSION = b"beat", 1
_HEAD, _SUM = struct.Struct("<4sBBHQd"), struct.Struct("<I")
NO_MOTION = Motion(np.zeros(0), np.zeros(0), np.zeros(0))


class Phase(IntEnum):
    """What the writer is doing."""

    SILENT = 0
    SENDING = 1
    ENDED = 2


class Heartbeat(NamedTuple):
    """One record.

    Args:
        number: Counts from 1.
        time_s: Time on the machine's monotonic clock.
        phase: Whether commands are sent.
        motion: Motion of the last command, each field (n,); it is sent just after the record is
            written.
    """

    number: int
    time_s: float
    phase: Phase
    motion: Motion


class HeartbeatBuffer:
    """The heartbeats of one process, in a part of a shared memory.

    Args:
        memory: Shared memory, initially zero.
        start: Offset of the part.
        joints: n.
    """

    def __init__(self, memory: mmap.mmap, start: int, joints: int) -> None:
        self._memory, self._start, self._joints = memory, start, joints
        self._number, self._size = 0, _size(joints)

    def write(self, time_s: float, phase: Phase, motion: Motion = NO_MOTION) -> None:
        """Write a beat; for one writer only."""
        self._number += 1
        head = _HEAD.pack(_MAGIC, _VERSION, phase, self._joints, self._number, time_s)
        body = head + np.concatenate(motion).astype("<f8").tobytes()
        at = self._place(self._number % 2)
        self._memory[at : at + self._size] = body + _SUM.pack(zlib.crc32(body))

    def read(self) -> Heartbeat | None:
        """Return the last complete beat; None without one."""
        found = [beat for place in (0, 1) if (beat := self._read(self._place(place))) is not None]
        return max(found, key=lambda beat: beat.number, default=None)

    def _place(self, which: int) -> int:
        return self._start + which * self._size

    def _read(self, at: int) -> Heartbeat | None:
        record = self._memory[at : at + self._size]
        body, (said,) = record[: -_SUM.size], _SUM.unpack(record[-_SUM.size :])
        magic, version, phase, joints, number, time_s = _HEAD.unpack_from(body)
        known = (magic, version, joints) == (_MAGIC, _VERSION, self._joints)
        if not known or zlib.crc32(body) != said:
            return None
        parts = np.frombuffer(body, "<f8", offset=_HEAD.size).reshape(3, joints)
        return Heartbeat(number, time_s, Phase(phase), Motion(*parts.astype(np.float64)))


class HeartbeatMemory(NamedTuple):
    """The heartbeats of both processes in one memory.

    Args:
        policy: Heartbeats of the policy process.
        watchdog: Heartbeats of the watchdog.
    """

    policy: HeartbeatBuffer
    watchdog: HeartbeatBuffer

    @classmethod
    def map_file(cls, file: int, joints: int) -> HeartbeatMemory:
        """Map an open file of at least ``size`` bytes."""
        memory = mmap.mmap(file, cls.size(joints))
        return cls(
            HeartbeatBuffer(memory, 0, joints), HeartbeatBuffer(memory, 2 * _size(joints), 0)
        )

    @staticmethod
    def size(joints: int) -> int:
        """Return the size of the memory in bytes."""
        return 2 * (_size(joints) + _size(0))


def _size(joints: int) -> int:
    """Return the size of a record in bytes."""
    return _HEAD.size + 3 * 8 * joints + _SUM.size
