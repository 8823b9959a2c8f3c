"""Commands that a robot can follow: position, velocity, acceleration and jerk within their limits.

Shapes: … any (nothing on a robot), n joints, C candidates.

Every command leaves a braking manoeuvre open that ends at rest within all limits
(``braking.brake``). It is played to its end before the command is given, and where no other command
passes, the next tick of the one that passed before is what is commanded. So limits hold whatever is
asked for, and by construction rather than by tuning (a shield with a backup manoeuvre: Bastani
2021, arXiv 1905.10691).
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
"""Accelerations that are tried, as shares of what is allowed."""
_CRUISE = 1.0 - 1e-9
"""Of the velocity limit, which rounding must not pass."""


class Limiter:
    """Follows targets as closely as the limits allow.

    A target that moves within the limits is met exactly; one that jumps is approached such that the
    joint would come to rest where the target would.

    Args:
        limits: Of the joints.
        pos: (…, n) where they are, at rest. What is outside of the position limits may move
            inwards only.
    """

    def __init__(self, limits: Limits, pos: Array) -> None:
        self.limits = limits
        self.restart(pos)

    def restart(self, pos: Array) -> None:
        """Begin anew, at rest at pos (…, n)."""
        pos = np.asarray(pos, np.float64)
        self.motion = Motion(pos, np.zeros_like(pos), np.zeros_like(pos))
        self._wanted = self.motion

    @property
    def target(self) -> Array:
        """The last target, (…, n); where it came to rest, that."""
        return self._wanted.pos

    @property
    def stop(self) -> Array:
        """Where braking from here ends, (…, n)."""
        return brake(self.motion, self.limits, *self._room()).stop

    @property
    def at_rest(self) -> bool:
        """Whether nothing moves."""
        return bool(is_at_rest(self.motion, self.limits).all())

    def step(self, target: Array, *, standing: bool = False) -> Array:
        """The command of the next tick, (…, n), for a finite target (…, n).

        Args:
            target: Where to.
            standing: Whether the target is a place to come to rest at, whatever was asked before.
        """
        reference = self._reference(np.asarray(target, np.float64), standing=standing)
        backup = braking_acc(self.motion.vel, self.motion.acc, self.limits)
        candidates = np.stack([self._exact(reference.pos), backup, *self._spread()])
        return self._take(candidates, reference)

    def brake(self) -> Array:
        """The command of the next tick of coming to rest, (…, n)."""
        self.motion = self.motion.step(
            braking_acc(self.motion.vel, self.motion.acc, self.limits), self.limits.dt_s
        )
        self._wanted = Motion(self.motion.pos, np.zeros_like(self.motion.vel), self.motion.acc * 0)
        return self.motion.pos

    def _take(self, candidates: Array, reference: Motion) -> Array:
        """Of accelerations (C, …, n) the safe one that brings rest nearest to the reference's.

        The first is the exact one, the second the backup, the others are in order.
        """
        wanted = brake(reference, self.limits, *self._room()).stop
        gaps, stops = self._gaps(candidates, wanted)
        gaps[1] = np.abs(stops[1] - wanted)  # safe: the rest of the manoeuvre of a tick ago
        if gaps.min(axis=0).any():  # none of them is it
            between = _between(candidates[2:], stops[2:], wanted)[None]
            gaps = np.concatenate([gaps, self._gaps(between, wanted)[0]])
            candidates = np.concatenate([candidates, between])
        acc = np.take_along_axis(candidates, gaps.argmin(axis=0)[None], axis=0)[0]
        self.motion, self._wanted = self.motion.step(acc, self.limits.dt_s), reference
        return self.motion.pos

    def _gaps(self, accs: Array, wanted: Array) -> tuple[Array, Array]:
        """How far from ``wanted`` each (C, …, n) brings rest, infinity if unsafely; and where."""
        ways = brake(self.motion.step(accs, self.limits.dt_s), self.limits, *self._room())
        return np.where(ways.safe, np.abs(ways.stop - wanted), np.inf), ways.stop

    def _reference(self, target: Array, *, standing: bool) -> Motion:
        """The target's motion; one that no joint could make counts as standing there."""
        limits, before = self.limits, self._wanted
        if standing:
            place = np.clip(target, *self._room())
            return Motion(place, np.zeros_like(place), np.zeros_like(place))
        target = np.clip(target, limits.low, limits.high)
        vel = (target - before.pos) / limits.dt_s
        acc = (vel - before.vel) / limits.dt_s
        real = (np.abs(vel) <= limits.velocity) & (np.abs(acc) <= limits.acceleration)
        return Motion(target, np.where(real, vel, 0.0), np.where(real, acc, 0.0))

    def _exact(self, target: Array) -> Array:
        """The acceleration that meets the target in this tick, or as much of it as is allowed."""
        dt_s = self.limits.dt_s
        return self._allowed(((target - self.motion.pos) / dt_s - self.motion.vel) / dt_s)

    def _spread(self) -> Array:
        """Accelerations over all that is allowed in this tick, and those to full speed, (C, …, n).

        Full speed is tried by itself: where a tick is long beside the acceleration limit, the
        others would overshoot it or fall short.
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
        """The position limits, widened to where a joint is already."""
        pos = self.motion.pos
        return np.minimum(self.limits.low, pos), np.maximum(self.limits.high, pos)


def _between(accs: Array, stops: Array, wanted: Array) -> Array:
    """Of accelerations (C, …, n) in order, the one that would stop there if stops were linear."""
    above = np.clip((stops < wanted).sum(axis=0), 1, len(stops) - 1)[None]
    ends = [np.take_along_axis(of, at, 0)[0] for of in (accs, stops) for at in (above - 1, above)]
    acc, acc_high, stop, stop_high = ends
    share = (wanted - stop) / np.where(stop_high > stop, stop_high - stop, np.inf)
    return acc + np.clip(share, 0.0, 1.0) * (acc_high - acc)


def check_computable(limits: Limits) -> None:
    """Refuse limits under which a command takes longer to find than half a tick.

    The smaller a tick and the lower the jerk, the more ticks a braking manoeuvre has. Timed on this
    machine, from the largest speeds.

    Raises:
        ConfigError: It does.
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
