"""Clocks, periodic timing with absolute deadlines, timing statistics, garbage-collector control."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(NamedTuple):
    """A monotonic clock in seconds, with its sleep function.

    Args:
        now_s: Returns the present time.
        sleep: Waits for a number of seconds.
        from_monotonic: Converts a recent time of ``time.monotonic`` to this clock. Transports stamp
            readings with ``time.monotonic``.
    """

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    from_monotonic: Callable[[float], float] = float


def boot_s() -> float:
    """Return the time since the boot, which advances while the computer is suspended.

    ``time.monotonic`` stands still meanwhile, so a reading from before would count as fresh. A
    system without ``CLOCK_BOOTTIME`` has no other clock.
    """
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


def boot_clock() -> Clock:
    """Return a clock whose ages include the time that the computer was suspended."""
    return Clock(boot_s, time.sleep, SuspensionOffset(boot_s, time.monotonic))


class SuspensionOffset:
    """Converts times of a clock that stands still during a suspension to one that does not.

    The offset of the two clocks never decreases. The later clock is read first, so that a delay
    between the two looks makes a reading older, and not fresher.

    Args:
        now_s: Clock that advances during a suspension.
        standing_s: Clock that stands still.
    """

    def __init__(self, now_s: Callable[[], float], standing_s: Callable[[], float]) -> None:
        self._now_s, self._standing_s, self._apart_s = now_s, standing_s, -math.inf

    def __call__(self, stamp_s: float) -> float:
        """Return a recent time on the clock that advances."""
        self._apart_s = max(self._apart_s, self._now_s() - self._standing_s())
        return stamp_s + self._apart_s


class PeriodicTimer:
    """Control periods of ``dt_s`` on a fixed time grid.

    A late period does not shift the later ones: missed periods are counted and skipped. A further
    iteration continues on the same grid, so that a gap between two iterations is one of missed
    periods.

    Args:
        dt_s: Period.
        clock: Source of the time.
        began_s: Start of period 0; the start of the first iteration if left out.
    """

    def __init__(self, dt_s: float, clock: Clock, began_s: float | None = None) -> None:
        self.dt_s, self.clock, self.began_s = dt_s, clock, began_s
        self.number = self.missed = 0

    def __iter__(self) -> Iterator[int]:
        """Wait for the next period and yield its number on the grid, without end."""
        began = self.began_s = self.clock.now_s() if self.began_s is None else self.began_s
        while True:
            self.number += 1
            wait = began + self.number * self.dt_s - self.clock.now_s()
            if wait > 0:
                self.clock.sleep(wait)
            now_s = self.clock.now_s()
            late = int((now_s - began) / self.dt_s + 1e-9) - self.number
            if late > 0:
                self.missed += late
                self.number += late
            yield self.number


def freeze_garbage_collector() -> None:
    """Exclude all existing objects from garbage collection for the life of the process.

    A full collection visits every object, including all imported modules. It takes 11 ms in a
    node's process and can start at any moment. The owner of the process calls this once, before the
    control loop starts.
    """
    gc.collect()
    gc.freeze()


class RecentDurations:
    """The latest durations in seconds; one thread adds, other threads may read.

    Args:
        size: Number of durations that are kept.
    """

    def __init__(self, size: int = 1000) -> None:
        self._values, self._added = np.zeros(size), 0

    def add(self, value: float) -> None:
        """Add a duration in seconds."""
        self._values[self._added % len(self._values)] = value
        self._added += 1

    def percentiles(self) -> tuple[float, float]:
        """Return the median and the 99th percentile; 0 without any duration."""
        kept = self._values[: self._added].copy()
        if not len(kept):
            return 0.0, 0.0
        p50, p99 = np.percentile(kept, [50, 99])
        return float(p50), float(p99)
