"""A program that is suspended as a whole loses no worker, however long it sleeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from robo_rl.env.workers.awake_watch import AwakeWatch

TESTS = Path(__file__).parents[2]
GYM = """
from robo_rl.env.gym_envs.env import GymEnv
from small_gym import SLEEP, faults
cfg = {"id": "Faults-v0", "import_module": "gym_faults", "workers": 2, "step_timeout_s": 2.0}
env = GymEnv(GymEnv.Config.model_validate(cfg), 2)
env.reset(0)
print(*env.worker_pids, flush=True)
env.step(faults(SLEEP, SLEEP, argument=1.0)[:, 0])
print(env.worker_restarts, flush=True)
env.close()
"""
REMOTE = """
from small_remote import SLEEP, faults, remote
env = remote(num_envs=2)
env.reset(0)
print(*env.worker_pids, flush=True)
env.step(faults(SLEEP, SLEEP, argument=1.0))
print(env.worker_restarts, flush=True)
env.close()
"""


@pytest.mark.parametrize("code", [GYM, REMOTE], ids=["gym", "remote"])
def test_healthy_workers_of_a_suspended_program_are_not_lost(code):
    pytest.importorskip("gymnasium")
    where = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS / 'env'}"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=where) as run:
        assert run.stdout is not None
        pids = [run.pid, *map(int, run.stdout.readline().split())]
        assert len(pids) == 3
        time.sleep(0.3)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(3.0)
        for pid in pids:  # the run wakes first, and sees that nothing has been said yet
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.2)
        assert run.stdout.readline() == b"0\n"


def test_a_wait_counts_for_no_longer_than_it_was_meant_to_last():
    watch = AwakeWatch()
    assert not watch.wait(lambda limit_s: time.sleep(0.2 + limit_s) or False, 0.1)
    assert watch.elapsed_s == pytest.approx(0.1)
    assert watch.wait(lambda _: True, 0.5)
    assert watch.elapsed_s < 0.2
