"""Limits commands in position, velocity, acceleration and jerk.

Shapes: … any (no dimension on a robot), n joints, C candidates.

After every command a braking manoeuvre exists that ends at rest within all limits
(``braking.brake``). The limiter simulates it to its end before it issues the command. If no other
candidate is safe, the command is the next tick of the last safe manoeuvre. The limits therefore
hold for any target by construction, without tuning. This is a shield with a backup manoeuvre
(Bastani 2021, arXiv 1905.10691).
"""

from __future__ import annotations

import time

import numpy as np

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.control.commands.braking import (
    Array,
    Limits,
    Motion,
    brake,
    braking_acc,
    is_at_rest,
)

_GRID = np.linspace(0.0, 1.0, 9)
"""Candidate accelerations, as shares of the allowed range."""
_CRUISE = 1.0 - 1e-9
"""Share of the velocity limit for full speed, below 1 because of rounding."""


class Limiter:
    """Follows targets as closely as the limits allow.

    A target that moves within the limits is met exactly. After a jump of the target, the joint is
    commanded to come to rest at the target's position of rest.

    Args:
        limits: Limits of the joints.
        pos: (…, n) their positions, at rest. A joint outside its position limits may move inwards
            only.
    """

    def __init__(self, limits: Limits, pos: Array) -> None:
        self.limits = limits
        self.restart(pos)

    def restart(self, pos: Array) -> None:
        """Restart at rest at pos (…, n)."""
        pos = np.asarray(pos, np.float64)
        self.motion = Motion(pos, np.zeros_like(pos), np.zeros_like(pos))
        self._wanted, self._target_vel = self.motion, self.motion.vel

    @property
    def target(self) -> Array:
        """The last target (…, n), or the position of rest after braking."""
        return self._wanted.pos

    @property
    def stop(self) -> Array:
        """Position (…, n) in which braking from the present motion ends."""
        return brake(self.motion, self.limits, *self._room()).stop

    @property
    def at_rest(self) -> bool:
        """Whether all joints are at rest."""
        return bool(is_at_rest(self.motion, self.limits).all())

    def step(self, target: Array, *, standing: bool = False) -> Array:
        """Return the command (…, n) of the next tick for a finite target (…, n).

        Args:
            target: Target position.
            standing: Whether to come to rest at the target, regardless of the previous target.
        """
        reference = self._reference(np.asarray(target, np.float64), standing=standing)
        backup = braking_acc(self.motion.vel, self.motion.acc, self.limits)
        candidates = np.stack([self._exact(reference.pos), backup, *self._spread()])
        return self._take(candidates, reference)

    def brake(self) -> Array:
        """Return the command (…, n) of the next tick of the braking manoeuvre."""
        self.motion = self.motion.step(
            braking_acc(self.motion.vel, self.motion.acc, self.limits), self.limits.dt_s
        )
        self._target_vel = np.zeros_like(self.motion.vel)
        self._wanted = Motion(self.motion.pos, self._target_vel, np.zeros_like(self.motion.acc))
        return self.motion.pos

    def _take(self, candidates: Array, reference: Motion) -> Array:
        """Take the safe acceleration whose position of rest is nearest to the reference's.

        The candidates are (C, …, n). The first is the exact one, the second the backup, the others
        are sorted.
        """
        wanted = brake(reference, self.limits, *self._room()).stop
        gaps, stops = self._gaps(candidates, wanted)
        gaps[1] = np.abs(stops[1] - wanted)  # safe: the rest of the previous tick's manoeuvre
        if gaps.min(axis=0).any():  # no candidate is exact
            between = _between(candidates[2:], stops[2:], wanted)[None]
            gaps = np.concatenate([gaps, self._gaps(between, wanted)[0]])
            candidates = np.concatenate([candidates, between])
        acc = np.take_along_axis(candidates, gaps.argmin(axis=0)[None], axis=0)[0]
        self.motion, self._wanted = self.motion.step(acc, self.limits.dt_s), reference
        return self.motion.pos

    def _gaps(self, accs: Array, wanted: Array) -> tuple[Array, Array]:
        """Return the distance of each candidate's rest (C, …, n) from ``wanted``, and the rest.

        The distance is infinite for an unsafe candidate.
        """
        ways = brake(self.motion.step(accs, self.limits.dt_s), self.limits, *self._room())
        return np.where(ways.safe, np.abs(ways.stop - wanted), np.inf), ways.stop

    def _reference(self, target: Array, *, standing: bool) -> Motion:
        """Return the target's motion; an infeasible motion counts as at rest at the target.

        The target's own velocity is kept, so that only the tick in which it jumps is infeasible.
        """
        limits = self.limits
        if standing:
            place = np.clip(target, *self._room())
            self._target_vel = np.zeros_like(place)
            return Motion(place, self._target_vel, np.zeros_like(place))
        target = np.clip(target, limits.low, limits.high)
        vel = (target - self._wanted.pos) / limits.dt_s
        acc = (vel - self._target_vel) / limits.dt_s
        self._target_vel = vel
        real = (np.abs(vel) <= limits.velocity) & (np.abs(acc) <= limits.acceleration)
        return Motion(target, np.where(real, vel, 0.0), np.where(real, acc, 0.0))

    def _exact(self, target: Array) -> Array:
        """Return the acceleration that meets the target in this tick, clipped to the limits."""
        dt_s = self.limits.dt_s
        return self._allowed(((target - self.motion.pos) / dt_s - self.motion.vel) / dt_s)

    def _spread(self) -> Array:
        """Return sorted accelerations (C, …, n): a grid over the allowed range, and full speed.

        Full speed is a candidate of its own. With a long tick relative to the acceleration limit,
        the grid alone would overshoot it or fall short.
        """
        ends = np.array([-1.0, 1.0]).reshape(-1, *[1] * self.motion.acc.ndim)
        low, high = self._allowed(np.inf * ends)
        shares = _GRID.reshape(-1, *[1] * low.ndim)
        full = (_CRUISE * ends * self.limits.velocity - self.motion.vel) / self.limits.dt_s
        return np.sort(np.concatenate([low + shares * (high - low), self._allowed(full)]), axis=0)

    def _allowed(self, acc: Array) -> Array:
        limits, now = self.limits, self.motion.acc
        acc = np.clip(acc, now - limits.step, now + limits.step)
        return np.clip(acc, -limits.acceleration, limits.acceleration)

    def _room(self) -> tuple[Array, Array]:
        """Return the position limits, widened to the joint's present position."""
        pos = self.motion.pos
        return np.minimum(self.limits.low, pos), np.maximum(self.limits.high, pos)


def _between(accs: Array, stops: Array, wanted: Array) -> Array:
    """Return the acceleration that stops at ``wanted`` by linear interpolation of the stops.

    The candidates ``accs`` (C, …, n) are sorted.
    """
    above = np.clip((stops < wanted).sum(axis=0), 1, len(stops) - 1)[None]
    ends = [np.take_along_axis(of, at, 0)[0] for of in (accs, stops) for at in (above - 1, above)]
    acc, acc_high, stop, stop_high = ends
    share = (wanted - stop) / np.where(stop_high > stop, stop_high - stop, np.inf)
    return acc + np.clip(share, 0.0, 1.0) * (acc_high - acc)


def check_computable(limits: Limits) -> None:
    """Refuse limits under which computing a command takes longer than half a tick.

    A shorter tick and a lower jerk limit give the braking manoeuvre more ticks. The time is
    measured on this machine, from the largest speeds.

    Raises:
        ConfigError: Computing a command takes longer.
    """
    middle, nothing = 0.5 * (limits.low + limits.high), np.zeros_like(limits.low)
    limiter, spent = Limiter(limits, middle), []
    for _ in range(5):
        limiter.motion = Motion(middle, limits.velocity, nothing)
        began = time.perf_counter()
        limiter.step(limits.high)
        spent.append(time.perf_counter() - began)
    if min(spent) > 0.5 * limits.dt_s:
        raise ConfigError(
            "limits: a command takes too long to find",
            expected=f"at most half of a period, {500.0 * limits.dt_s:.3g} ms",
            found=f"{1e3 * min(spent):.3g} ms",
            hint="a lower rate, or a larger jerk",
        )
