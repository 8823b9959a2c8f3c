"""A worker ends with its parent, whatever the worker does and however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_gym import gone

TESTS = Path(__file__).parents[2]
GYM = """
from robo_rl.env.gym_envs.env import GymEnv
from small_gym import HANG, faults
cfg = {"id": "Faults-v0", "import_module": "gym_faults", "workers": 2}
env = GymEnv(GymEnv.Config.model_validate(cfg), 2)
env.reset(0)
print(*env.worker_pids, flush=True)
env.step(faults(HANG, HANG)[:, 0])
"""
ANY = """
import os, sys, time
from threading import Thread
from robo_rl.env.workers.child_interpreter import start_interpreter
read, write = os.pipe()
made = []
thread = Thread(target=lambda: made.append(start_interpreter("stops_itself", write)))
thread.start()
thread.join()  # a worker outlives the thread that started it
assert os.read(read, 1) == b"!"
print(made[0].pid, flush=True)
time.sleep(60)
"""
STOPS_ITSELF = """
import os, signal, sys, time
def main(fd):
    assert sys.stdin.read() == ""
    time.sleep(0.5)
    os.write(fd, b"!")
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def killed_run(code: str, path: list[Path]) -> list[int]:
    """The workers of a program that was killed while they hung."""
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=where) as run:
        assert run.stdout is not None
        pids = [int(pid) for pid in run.stdout.readline().split()]
        time.sleep(1.0)
        assert run.poll() is None
        run.kill()
    return pids


def assert_gone(pids: list[int], number: int) -> None:
    assert len(pids) == number
    try:
        assert all([gone(pid) for pid in pids])
    finally:
        for pid in pids:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)


def test_envs_that_hang_in_c_end_with_a_killed_run():
    pytest.importorskip("gymnasium")
    assert_gone(killed_run(GYM, [TESTS, TESTS / "env"]), 2)


def test_any_worker_ends_with_a_killed_parent_also_a_stopped_one(tmp_path: Path):
    (tmp_path / "stops_itself.py").write_text(STOPS_ITSELF)
    assert_gone(killed_run(ANY, [tmp_path]), 1)
