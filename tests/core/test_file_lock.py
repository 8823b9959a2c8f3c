"""A lock has one holder, and is free when that one lets go or ends, whatever was forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from robo_rl.core.file_lock import lock_file

_HOLD_AND_FORK = """
import os, sys, time
from pathlib import Path
from robo_rl.core.file_lock import lock_file
held = lock_file(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""


def forked() -> int:
    """A child that lives until it is killed, and never runs another program."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    return child


def end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_lock_has_one_holder_until_it_is_closed(tmp_path: Path):
    held = lock_file(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        lock_file(tmp_path / "lock")
    held.close()
    held.close()
    lock_file(tmp_path / "lock").close()


def test_who_waits_for_a_lock_gets_it_when_it_is_free(tmp_path: Path):
    held, order = lock_file(tmp_path / "lock"), list[str]()

    def wait() -> None:
        with lock_file(tmp_path / "lock", wait=True):
            order.append("second")

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    order.append("first")
    held.close()
    waiting.join(timeout=30)
    assert order == ["first", "second"]


def test_a_lock_is_free_when_its_holder_closes_it_though_a_forked_child_lives(tmp_path: Path):
    with lock_file(tmp_path / "lock"):
        child = forked()
    try:
        lock_file(tmp_path / "lock").close()
    finally:
        end(child)


def test_a_forked_child_that_leaves_the_block_does_not_free_the_lock_of_its_parent(tmp_path: Path):
    held = lock_file(tmp_path / "lock")
    if (child := os.fork()) == 0:
        try:
            held.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(BlockingIOError):
        lock_file(tmp_path / "lock")
    held.close()


def test_a_lock_is_free_when_its_holder_is_killed_though_a_forked_child_lives(tmp_path: Path):
    words = [sys.executable, "-c", _HOLD_AND_FORK, str(tmp_path / "lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        child = int(holder.stdout.readline())
        with pytest.raises(BlockingIOError):
            lock_file(tmp_path / "lock")
        holder.kill()
        holder.wait()
        try:
            lock_file(tmp_path / "lock", wait=True).close()  # as soon as the child has dropped it
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_program_that_was_given_the_lock_keeps_it_when_the_holder_is_killed(tmp_path: Path):
    words = [sys.executable, "-c", _GIVE_AWAY, str(tmp_path / "lock")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        heir = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
        with pytest.raises(BlockingIOError):
            lock_file(tmp_path / "lock")
        os.kill(heir, signal.SIGKILL)
        lock_file(tmp_path / "lock", wait=True).close()


_GIVE_AWAY = """
import subprocess, sys, time
from pathlib import Path
from robo_rl.core.file_lock import lock_file
held = lock_file(Path(sys.argv[1]))
heir = subprocess.Popen(["sleep", "60"], pass_fds=[held.fileno()], stdout=subprocess.DEVNULL)
print(heir.pid, flush=True)
time.sleep(60)
"""
