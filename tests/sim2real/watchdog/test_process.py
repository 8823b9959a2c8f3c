"""A process by its handle: how it is with it, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.watchdog.assessment import ProcessState
from robo_rl_sim2real.watchdog.process import ProcessHandle

if not hasattr(os, "pidfd_open"):
    pytest.skip("the watchdog needs Linux", allow_module_level=True)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield made
    made.kill()
    made.wait()


def test_it_runs_is_stopped_runs_and_is_gone(child: subprocess.Popen[bytes]):
    process = ProcessHandle(child.pid)
    assert process.state() is ProcessState.RUNS
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert process.state() is ProcessState.STOPPED
    child.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, child.pid, os.WCONTINUED)
    assert process.state() is ProcessState.RUNS
    child.kill()
    assert process.wait(5.0)
    assert process.state() is ProcessState.GONE


def test_a_stopped_one_is_killed_and_killing_a_dead_one_is_nothing(
    child: subprocess.Popen[bytes],
):
    process = ProcessHandle(child.pid)
    child.send_signal(signal.SIGSTOP)
    assert process.kill(5.0)
    assert child.wait() == -signal.SIGKILL  # its number is free from here on
    assert process.kill(0.0)
    assert process.state() is ProcessState.GONE


def test_one_that_is_not_there_cannot_be_watched(child: subprocess.Popen[bytes]):
    child.kill()
    child.wait()
    with pytest.raises(DeviceError, match="cannot be watched"):
        ProcessHandle(child.pid)
