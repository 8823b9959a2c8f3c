"""Beats in shared memory: whole ones only, the latest of them, whatever a writer left behind."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_limits import JOINTS

from robo_rl_sim2real.control.commands.braking import Motion
from robo_rl_sim2real.watchdog.heartbeat import HeartbeatBuffer, HeartbeatMemory, Phase


def motion(value: float) -> Motion:
    pos = value + np.arange(JOINTS, dtype=np.float64)
    return Motion(pos, -pos, 0.5 * pos)


def test_the_last_beat_is_read_as_it_was_written():
    memory = mmap.mmap(-1, HeartbeatMemory.size(JOINTS))
    writer, reader = HeartbeatBuffer(memory, 0, JOINTS), HeartbeatBuffer(memory, 0, JOINTS)
    assert reader.read() is None
    for number in range(1, 6):
        writer.write(0.1 * number, Phase.SENDING, motion(number))
        beat = reader.read()
        assert beat is not None
        assert (beat.number, beat.time_s, beat.phase) == (number, 0.1 * number, Phase.SENDING)
        np.testing.assert_array_equal(beat.motion, motion(number))


def test_both_sides_have_their_own_place(tmp_path: Path):
    path = tmp_path / "block"
    path.write_bytes(b"\0" * HeartbeatMemory.size(JOINTS))
    with path.open("r+b") as file:
        block = HeartbeatMemory.map_file(file.fileno(), JOINTS)
    for number in range(3):
        block.policy.write(1.0, Phase.SENDING, motion(number))
        block.watchdog.write(2.0, Phase.SILENT)
    policy, watchdog = block.policy.read(), block.watchdog.read()
    assert policy is not None
    assert watchdog is not None
    assert (policy.number, policy.time_s, watchdog.number, watchdog.time_s) == (3, 1.0, 3, 2.0)
    np.testing.assert_array_equal(policy.motion, motion(2))


@pytest.mark.parametrize("records", [1, 2, 3, 4])
def test_a_record_that_is_half_written_leaves_the_one_before(records: int):
    """Cut off after every number of bytes: what counts is the last record or the one before."""
    size = HeartbeatMemory.size(JOINTS)
    memory = mmap.mmap(-1, size)
    writer = HeartbeatBuffer(memory, 0, JOINTS)
    for number in range(records):
        writer.write(float(number), Phase.SENDING, motion(number))
    before = memory[:size]
    writer.write(float(records), Phase.SENDING, motion(records))
    changed = [at for at in range(size) if memory[at] != before[at]]
    after, seen = memory[:size], set[int]()
    for cut in range(changed[0], changed[-1] + 2):
        memory[:size] = after[:cut] + before[cut:]
        beat = HeartbeatBuffer(memory, 0, JOINTS).read()
        assert beat is not None
        assert beat.number in (records, records + 1)
        np.testing.assert_array_equal(beat.motion, motion(beat.number - 1))
        seen.add(beat.number)
    assert seen == {records, records + 1}


def test_no_flipped_bit_is_believed():
    memory = mmap.mmap(-1, HeartbeatMemory.size(JOINTS))
    writer = HeartbeatBuffer(memory, 0, JOINTS)
    writer.write(1.0, Phase.SENDING, motion(1.0))
    used = [at for at in range(len(memory)) if memory[at]]
    for at in used:
        memory[at] ^= 1 << (at % 8)
        assert writer.read() is None
        memory[at] ^= 1 << (at % 8)
    assert writer.read() is not None


def test_a_reader_beside_a_writer_that_never_rests_believes_only_what_was_written(tmp_path: Path):
    """Two processes on one memory; every record of the writer is of one number throughout."""
    path = tmp_path / "block"
    path.write_bytes(b"\0" * HeartbeatMemory.size(JOINTS))
    code = (
        "import sys, numpy as np\n"
        "from robo_rl_sim2real.control.commands.braking import Motion\n"
        "from robo_rl_sim2real.watchdog.heartbeat import HeartbeatMemory, Phase\n"
        "file = open(sys.argv[1], 'r+b')\n"
        f"block = HeartbeatMemory.map_file(file.fileno(), {JOINTS})\n"
        "number = 0\n"
        "while True:\n"
        "    number += 1\n"
        f"    part = np.full({JOINTS}, float(number))\n"
        "    block.policy.write(float(number), Phase.SENDING, Motion(part, part, part))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        with path.open("r+b") as file:
            block = HeartbeatMemory.map_file(file.fileno(), JOINTS)
        numbers = list[int]()
        while len(numbers) < 5000:
            beat = block.policy.read()
            assert writer.poll() is None
            if beat is not None:
                assert (np.stack(beat.motion) == beat.time_s).all()
                numbers.append(beat.number)
    finally:
        writer.kill()
        writer.wait()
    assert numbers == sorted(numbers)
    assert numbers[-1] > numbers[0]
    assert block.policy.read() is not None  # also after the kill
