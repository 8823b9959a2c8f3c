"""Commands to the env that goes wrong when it is told to (``gym_faults``); its processes."""

from __future__ import annotations

import os
import time

import torch

OKAY, RAISE, SLEEP, SEGFAULT, NAN, WRONG_SHAPE, EXIT, NAN_REWARD, HANG = range(9)


def faults(*commands, steps=1, argument=0.0):
    """Actions (B, T, 2): command b for env b in the first step."""
    act = torch.zeros(len(commands), steps, 2)
    act[:, 0, 0] = torch.tensor(commands, dtype=torch.float32)
    act[:, 0, 1] = argument
    return act


def gone(pid):
    """No process, and no zombie, has this id."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
