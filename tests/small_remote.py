"""Remote envs of the built-in point mass and of a world that goes wrong when it is told to."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from robo_rl.env.remote.env import RemoteEnv

FAULTS = str(Path(__file__).parent / "env" / "remote_faults.py")
OKAY, RAISE, SLEEP, SEGFAULT, NAN, WRONG_SHAPE, EXIT, STOP, OSERROR, NAN_REW = range(10)


def remote(adapter=FAULTS, num_envs=4, **fields):
    """A ``RemoteEnv`` with two workers that are not waited for long."""
    fields = {"workers": 2, "start_timeout_s": 30.0, "heartbeat_timeout_s": 1.5, **fields}
    return RemoteEnv(RemoteEnv.Config(adapter=adapter, **fields), num_envs)


def faults(*commands, argument=0.0):
    """Actions (B, 2): command b for env b."""
    act = torch.zeros(len(commands), 2)
    act[:, 0], act[:, 1] = torch.tensor(commands, dtype=torch.float32), argument
    return act


def seconds(run):
    """How long a call takes, and what it returns."""
    start = time.monotonic()
    result = run()
    return time.monotonic() - start, result
