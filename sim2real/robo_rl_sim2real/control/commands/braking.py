"""The braking manoeuvre of a joint, which every command must keep feasible.

Shapes: … any, broadcast over n joints. Time is in ticks of dt: a' = a + j·dt, v' = v + a'·dt, x' =
x + v'·dt. Velocity, acceleration and jerk are thus differences of the commanded positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import ConfigError

Array = NDArray[np.float64]

_AT_REST = 1e-9
"""Bound on velocity, per second, and on acceleration times dt, for a joint at rest."""


class Motion(NamedTuple):
    """Commanded position, velocity and acceleration, each (…, n)."""

    pos: Array
    vel: Array
    acc: Array

    def step(self, acc: Array, dt_s: float) -> Motion:
        """Return the motion one tick later, at that acceleration."""
        vel = self.vel + acc * dt_s
        return Motion(self.pos + vel * dt_s, vel, acc)


@dataclass(frozen=True)
class Limits:
    """Bounds of the commands, each (n,), in the joint's unit and its time derivatives.

    Args:
        low: Lowest position.
        high: Highest position.
        velocity: Largest speed.
        acceleration: Largest acceleration.
        jerk: Largest jerk.
        dt_s: Duration of a tick.

    Raises:
        ConfigError: A bound is not finite or not positive, or a position range is empty.
    """

    low: Array
    high: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    dt_s: float

    def __post_init__(self) -> None:
        rates = np.stack([self.velocity, self.acceleration, self.jerk])
        if not (np.isfinite(rates).all() and (rates > 0).all() and self.dt_s > 0):
            raise ConfigError(
                "limits of velocity, acceleration and jerk",
                expected="finite and above 0",
                found=rates.tolist(),
            )
        ends = np.stack([self.low, self.high])
        if not (np.isfinite(ends).all() and (self.low < self.high).all()):
            found = f"{self.low.tolist()} to {self.high.tolist()}"
            raise ConfigError("position limits", expected="finite, low < high", found=found)

    @property
    def step(self) -> Array:
        """The largest change of acceleration in a tick."""
        return self.jerk * self.dt_s

    @property
    def ticks(self) -> int:
        """An upper bound on the ticks of any braking manoeuvre from within the limits."""
        turn = 2.0 * self.acceleration / self.step
        slow = 2.0 * self.velocity / (self.acceleration * self.dt_s)
        return int(np.ceil((turn + slow).max())) + 8


def braking_acc(vel: Array, acc: Array, limits: Limits) -> Array:
    """Return the acceleration (…, n) of the next tick of the braking manoeuvre.

    It aims for the hardest braking that jerk-limited steps can still release before the joint is at
    rest. That is h with S(h) = |v|, where S(h) = dt·Σ max(h − i·J·dt, 0) over i ≥ 0. S(h) is the
    speed that an acceleration h removes while it is released. On that curve the joint comes to rest
    exactly.
    """
    wanted = -np.sign(vel) * np.minimum(_releasable(np.abs(vel), limits), limits.acceleration)
    return np.clip(wanted, acc - limits.step, acc + limits.step)


def _releasable(speed: Array, limits: Limits) -> Array:
    """Return the inverse of S: h = m·u + r, u = J·dt, S = dt·((m + 1)·r + u·m·(m + 1)/2)."""
    units = speed / (limits.step * limits.dt_s)
    whole = np.floor(0.5 * (np.sqrt(1.0 + 8.0 * units) - 1.0))
    rest = (units - 0.5 * whole * (whole + 1.0)) / (whole + 1.0)
    return (whole + rest) * limits.step


class Brake(NamedTuple):
    """The result of braking from a motion.

    Args:
        stop: (…, n) position at rest.
        safe: (…, n) bool, whether the manoeuvre stays within all limits.
    """

    stop: Array
    safe: NDArray[np.bool_]


def brake(start: Motion, limits: Limits, low: Array | float, high: Array | float) -> Brake:
    """Simulate the braking manoeuvre to its end.

    Args:
        start: Initial motion; its position, velocity and acceleration are checked too.
        limits: Limits of the joints.
        low: (…, n) lowest allowed position.
        high: (…, n) highest allowed position.
    """
    motion, lowest, highest, fastest = start, start.pos, start.pos, np.abs(start.vel)
    for _ in range(limits.ticks):
        if is_at_rest(motion, limits).all():
            break
        motion = motion.step(braking_acc(motion.vel, motion.acc, limits), limits.dt_s)
        lowest, highest = np.minimum(lowest, motion.pos), np.maximum(highest, motion.pos)
        fastest = np.maximum(fastest, np.abs(motion.vel))
    within = (lowest >= low) & (highest <= high) & (fastest <= limits.velocity)
    return Brake(motion.pos, within & is_at_rest(motion, limits))


def is_at_rest(motion: Motion, limits: Limits) -> NDArray[np.bool_]:
    """Return (…, n) whether a joint is at rest."""
    return (np.abs(motion.vel) < _AT_REST) & (np.abs(motion.acc) * limits.dt_s < _AT_REST)
