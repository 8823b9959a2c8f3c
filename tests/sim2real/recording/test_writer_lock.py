"""A recording is locked as long as its writer lives, where the file system has locks."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl_sim2real.recording.writer_lock import is_locked, lock_recording

WRITER = """
import sys
from pathlib import Path
from robo_rl_sim2real.recording.writer_lock import lock_recording
lock = lock_recording(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_lock_of_another_process_ends_with_it(tmp_path: Path):
    file = tmp_path / "run.mcap"
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "locked\n"
        assert is_locked(file)
        os.kill(writer.pid, signal.SIGKILL)
    assert not is_locked(file)


def test_a_test_of_the_lock_leaves_the_file_unlocked_and_unchanged(tmp_path: Path):
    file = tmp_path / "run.mcap"
    file.write_bytes(b"data")
    file.chmod(0o444)
    assert not is_locked(file)
    file.chmod(0o644)
    lock = lock_recording(file)
    assert lock is not None
    assert is_locked(file)
    lock.close()
    assert not is_locked(file)
    assert file.read_bytes() == b"data"


def test_a_file_system_without_locks_can_be_recorded_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuses)
    file = tmp_path / "run.mcap"
    file.touch()
    assert lock_recording(file) is None
    assert not is_locked(file)
