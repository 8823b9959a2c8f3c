"""GymEnv leaves no process and no shared memory behind, however it ends."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_gym import gone

from robo_rl.env.gym_envs.env import GymEnv

gymnasium = pytest.importorskip("gymnasium")


def mapped_segments():
    """Shared memory that this process has open or mapped."""
    opened = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return [entry for entry in opened + mapped if "memfd:robo-rl-envs" in entry]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to look in")
def test_close_leaves_no_process_and_no_shared_memory(make):
    gc.collect()
    before = len(mapped_segments())
    env = make()
    env.reset(0)
    env.rollout(torch.zeros(4, 5, 2))
    pids = env.worker_pids
    assert len(mapped_segments()) > before
    os.kill(pids[0], signal.SIGSTOP)  # one that cannot answer, too
    env.close()
    env.close()
    assert all(gone(pid) for pid in pids)
    assert len(mapped_segments()) == before


def test_an_env_that_is_forgotten_closes_itself(make):
    env = GymEnv(GymEnv.Config(id="Pendulum-v1", workers=1), 1)
    pid = env.worker_pids[0]
    del env
    gc.collect()
    assert gone(pid)


def test_a_killed_trainer_leaves_no_process():
    script = """
import os, signal
from robo_rl.env.gym_envs.env import GymEnv
env = GymEnv(GymEnv.Config(id="Pendulum-v1", workers=2), 2)
env.reset(0)
print(*env.worker_pids, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    # From standard input and without a guard on __main__, as in a notebook.
    done = subprocess.run([sys.executable], input=script, capture_output=True, text=True)
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    assert all(gone(pid) for pid in pids)
