"""Limits of a made-up arm, and what its commands amount to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robo_rl_sim2real.control.commands.braking import Limits

Array = NDArray[np.float64]
JOINTS = 5


def limits(dt_s: float = 0.02, jerk: float = 100.0) -> Limits:
    """Joints of different speeds; one acceleration takes several ticks where jerk is low."""
    return Limits(
        low=np.full(JOINTS, -1.0),
        high=np.full(JOINTS, 1.5),
        velocity=np.linspace(0.5, 2.6, JOINTS),
        acceleration=np.linspace(2.0, 15.0, JOINTS),
        jerk=np.full(JOINTS, jerk),
        dt_s=dt_s,
    )


def excess(commands: Array, within: Limits) -> float:
    """By which share commands (T, …, n), at rest before the first, exceed their worst limit."""
    pos = np.concatenate([np.repeat(commands[:1], 3, axis=0), commands])
    vel = np.diff(pos, axis=0) / within.dt_s
    acc = np.diff(vel, axis=0) / within.dt_s
    jerk = np.diff(acc, axis=0) / within.dt_s
    rates = ((vel, within.velocity), (acc, within.acceleration), (jerk, within.jerk))
    worst = max(float((np.abs(rate) / bound).max()) for rate, bound in rates) - 1.0
    outside = np.maximum(within.low - pos, pos - within.high).max()
    return max(worst, float(outside))
