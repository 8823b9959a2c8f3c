"""Plausibility of measured positions.

Shapes: m joints or axes of one topic. Times are in seconds: arrival times on the local monotonic
clock, header times on the sender's clock.

A reading is plausible if every joint is within its limits plus a margin and can have moved there
since the previous reading. A joint can stand still, keep its velocity, or change it within its
acceleration limit.

An implausible reading raises an alarm. The policy does not receive it, it never becomes a target,
and the robot brakes along its last commands. After an alarm, after silence, and at the start,
readings are accepted only after several consecutive plausible ones. They must also be near the last
accepted position, or near the command while the robot is commanded. A constant wrong reading is
therefore never accepted, except as the first place of all or as that of ``accept_place``. A
measured position becomes a target only after several accepted readings at one place.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.messages.readings import Reading, Values

_DRIFT = 0.05
"""Largest speed of a joint at rest, as a share of its velocity limit."""
_ROUNDING_S = 1e-6
_CLOCK_SET_S = 0.5
"""Jump of header time minus arrival time, in s, that indicates a reset of a clock."""


class AxisLimits(NamedTuple):
    """Limits of the values on one topic, each (m,).

    Args:
        names: Names of joints or axes.
        low: Lowest position.
        high: Highest position.
        velocity: Largest speed.
        acceleration: Largest acceleration.
        range: Range that relative distances refer to.
        yields_to_contact: (m,) bool, joints that stop on contact, and need not be near their
            command.
    """

    names: tuple[str, ...]
    low: Values
    high: Values
    velocity: Values
    acceleration: Values
    range: Values
    yields_to_contact: Values


class _Sample(NamedTuple):
    """A reading: pos and vel (m,), the interval of its velocity, arrival and header times."""

    pos: Values
    vel: Values
    span_s: float
    at_s: float
    sent_s: float


class PlausibilityCheck:
    """Checks the readings of one topic.

    Args:
        cfg: See Config.
        axes: Limits of the values on the topic.
        believed: Whether the first reading is accepted, and readings at any place after an alarm,
            as for a leader arm with its relative reference.
    """

    class Config(ConfigModel):
        """Thresholds of plausibility. Distances are shares of a joint's range.

        Args:
            limit_margin: Largest distance outside a joint's limits, in addition to noise.
            noise: Largest distance between readings of a joint at rest.
            min_noise: Lower bound on that distance, in rad or m.
            rate_factor: Largest measured velocity and acceleration, in multiples of the robot's
                limits.
            reaccept_distance: Distance from the command, or from the last accepted position, within
                which readings are accepted again.
            reaccept_count: Number of consecutive plausible readings before readings are accepted
                again.
            silence_s: Interval between two readings above which readings are accepted again like
                after an alarm. A driver restarts within such an interval, and a joint can move far.
            standstill_s: Time for which a joint at rest is measured at one place.
            min_interval_s: Lower bound on the interval between readings, because a driver may
                repeat positions. Without header times it is also the largest delay of a reading.
        """

        limit_margin: float = Field(default=0.05, ge=0.0, le=1.0)
        noise: float = Field(default=0.01, ge=0.0, le=1.0)
        min_noise: float = Field(default=0.002, ge=0.0)
        rate_factor: float = Field(default=1.5, ge=1.0)
        reaccept_distance: float = Field(default=0.05, gt=0.0, le=1.0)
        reaccept_count: int = Field(default=4, ge=2)
        silence_s: float = Field(default=0.15, gt=0.0)
        standstill_s: float = Field(default=0.15, gt=0.0)
        min_interval_s: float = Field(default=0.05, ge=0.0)

    def __init__(self, cfg: Config, axes: AxisLimits, *, believed: bool = False) -> None:
        self.cfg, self.axes, self._range = cfg, axes, axes.range
        self.noise = np.maximum(cfg.noise * axes.range, cfg.min_noise)
        self._last: _Sample | None = None
        self._believed: Values | None = None
        self._streak, self._recent = 0, deque[_Sample]()
        self.believed, self._anywhere = believed, believed
        self.displaced = False
        self.problem = "" if believed else "nothing was measured yet"

    @property
    def is_standing(self) -> bool:
        """Whether the latest readings are accepted and at one place, up to a slow drift."""
        recent, cfg = self._recent, self.cfg
        if not self.believed or recent[-1].at_s - recent[0].at_s < cfg.standstill_s - _ROUNDING_S:
            return False
        spread = np.ptp([seen.pos for seen in recent], axis=0)
        drift = _DRIFT * self.axes.velocity * cfg.standstill_s
        return bool((spread <= np.maximum(drift, 2.0 * cfg.min_noise)).all())

    @property
    def checked_s(self) -> float:
        """Arrival time of the last checked reading; −inf without one."""
        return -np.inf if self._last is None else self._last.at_s

    def check(
        self,
        reading: Reading,
        pos: Values,
        vel: Values | None,
        commanded: Values | None,
        silent_s: float | None = None,
    ) -> None:
        """Check the newest reading; a reading that was checked before has no effect.

        Args:
            reading: The reading, for its times.
            pos: (m,) its positions.
            vel: (m,) its velocities; None without any.
            commanded: (m,) commanded positions, NaN for joints without a position command; None
                without commands.
            silent_s: Longest time without a reading since the last checked one; None for the time
                since that one, if every reading is checked.
        """
        before = self._last
        if before is not None and reading.stamp_s == before.at_s:
            return
        self._last = seen = _seen(before, reading, pos, self.cfg.min_interval_s)
        if before is not None and not self._anywhere:
            self._note_silence(seen.at_s - before.at_s if silent_s is None else silent_s)
        amiss = self._beyond(pos) or self._too_fast(vel) or self._jumped(before, seen)
        if amiss:
            self._recent.clear()
        self._keep(seen)
        self._streak = 0 if amiss else self._streak + 1
        if amiss or not self.believed:
            waits = amiss or self._waits()
            far = "" if waits or self._anywhere else self._far(pos, commanded)
            self.problem, self.displaced = waits or far, bool(far)
            self.believed = not self.problem
        if self.believed:
            self._believed = pos

    def accept_place(self) -> None:
        """Accept readings near the last one, because an operator confirms its place."""
        if self.displaced and self._last is not None:
            self._believed, self.displaced = self._last.pos, False

    def _note_silence(self, silent_s: float) -> None:
        """Withdraw the acceptance of readings after a gap between two of them."""
        if silent_s > self.cfg.silence_s:
            self.believed, self._streak = False, 0
            self._recent.clear()

    def _keep(self, seen: _Sample) -> None:
        """Keep the latest readings that span ``standstill_s``."""
        recent, since_s = self._recent, seen.at_s - self.cfg.standstill_s + _ROUNDING_S
        recent.append(seen)
        while len(recent) > 1 and recent[1].at_s <= since_s:
            recent.popleft()

    def _beyond(self, pos: Values) -> str:
        margin, (names, low, high, *_) = self.cfg.limit_margin * self._range + self.noise, self.axes
        out = np.flatnonzero((pos < low - margin) | (pos > high + margin))
        said = (f"'{names[i]}' {pos[i]:.3f}, limits {low[i]:.3f} to {high[i]:.3f}" for i in out)
        return f"beyond its limits: {'; '.join(said)}" if len(out) else ""

    def _too_fast(self, vel: Values | None) -> str:
        limits = self.cfg.rate_factor * self.axes.velocity
        out = np.flatnonzero(np.abs(vel) > limits) if vel is not None else ()
        said = (f"'{self.axes.names[i]}' {vel[i]:.3g}, at most {limits[i]:.3g}" for i in out)  # type: ignore[index]
        return f"faster than it can be: {'; '.join(said)}" if len(out) else ""

    def _jumped(self, before: _Sample | None, seen: _Sample) -> str:
        """Return the joints whose motion since the last reading is infeasible; empty for none."""
        if before is None:
            return ""
        moved = seen.pos - before.pos
        low, high = self._reach(before, seen.span_s)
        out = np.flatnonzero((moved < low) | (moved > high))
        said = (f"'{self.axes.names[i]}' by {moved[i]:+.3f} in {seen.span_s:.3f} s" for i in out)
        return f"moved farther than it can: {'; '.join(said)}" if len(out) else ""

    def _reach(self, start: _Sample, dt_s: float) -> tuple[Values, Values]:
        """Return the smallest and the largest motion (m,) of a joint in ``dt_s``.

        A contact can stop a joint at once, so standing still is always feasible. The velocity is a
        mean over ``start.span_s``, so it can have changed since the middle of that interval.
        """
        cfg, axes = self.cfg, self.axes
        farthest = cfg.rate_factor * axes.velocity * dt_s
        turned = cfg.rate_factor * axes.acceleration * dt_s * 0.5 * (dt_s + max(start.span_s, dt_s))
        carried, noise = start.vel * dt_s, self.noise
        low = np.maximum(np.minimum(carried, 0.0) - turned, -farthest) - noise
        return low, np.minimum(np.maximum(carried, 0.0) + turned, farthest) + noise

    def _waits(self) -> str:
        missing = self.cfg.reaccept_count - self._streak
        return f"believed after {missing} more plausible readings" if missing > 0 else ""

    def _far(self, pos: Values, commanded: Values | None) -> str:
        """Return the joint that is neither near its command nor near its last accepted place."""
        places = [place for place in (commanded, self._believed) if place is not None]
        if not places:
            return ""
        apart = np.fmin.reduce([np.abs(pos - place) for place in places]) / self._range
        apart = np.nan_to_num(apart, nan=np.inf)
        apart[self.axes.yields_to_contact] = 0.0
        worst = int(apart.argmax())
        if apart[worst] <= self.cfg.reaccept_distance:
            return ""
        name, share = self.axes.names[worst], 100.0 * apart[worst]
        return f"'{name}' {pos[worst]:.3f} is {share:.0f} % of its range from where it was"


def _seen(before: _Sample | None, reading: Reading, pos: Values, late_s: float) -> _Sample:
    if before is None:
        return _Sample(pos, np.zeros_like(pos), late_s, reading.stamp_s, reading.sent_s)
    span_s = _elapsed_s(before, reading, late_s)
    return _Sample(pos, (pos - before.pos) / span_s, span_s, reading.stamp_s, reading.sent_s)


def _elapsed_s(before: _Sample, reading: Reading, late_s: float) -> float:
    """Return the time between two readings.

    It is the difference of the headers if their times are plausible, else the longest possible
    interval.
    """
    came_s, said_s = reading.stamp_s - before.at_s, reading.sent_s - before.sent_s
    stamped = before.sent_s > 0.0 and reading.sent_s > 0.0
    if stamped and said_s > 0.0 and abs(said_s - came_s) < _CLOCK_SET_S:
        return max(said_s, late_s)
    return came_s + late_s
