"""Keeping time: absolute deadlines, what came of them, and what would break them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np


class Clock(NamedTuple):
    """A monotonic clock in seconds, and waiting on it."""

    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class PeriodicTimer:
    """Control periods of ``dt_s`` on the grid on which they began.

    What is late does not shift what follows: a period that was missed is counted and left out.

    Args:
        dt_s: Period.
        clock: What time it is.
        began_s: When period 0 began; as soon as it is iterated over if left out.
    """

    def __init__(self, dt_s: float, clock: Clock, began_s: float | None = None) -> None:
        self.dt_s, self.clock, self.began_s = dt_s, clock, began_s
        self.missed = 0

    def __iter__(self) -> Iterator[int]:
        """Wait for the next period, again and again; gives its number on the grid."""
        began, number = self.clock.now_s() if self.began_s is None else self.began_s, 0
        while True:
            number += 1
            wait = began + number * self.dt_s - self.clock.now_s()
            if wait > 0:
                self.clock.sleep(wait)
            now_s = self.clock.now_s()
            late = int((now_s - began) / self.dt_s + 1e-9) - number
            if late > 0:
                self.missed += late
                number += late
            yield number


def freeze_garbage_collector() -> None:
    """Take all that is there so far out of the garbage collector's sight, for good.

    A full collection looks at every object, all that was imported included: 11 ms in a node's
    process, at any moment. To be called once by who owns the process, before periods are kept.
    """
    gc.collect()
    gc.freeze()


class RecentDurations:
    """The latest of some durations, in seconds; one thread adds, others may look.

    Args:
        size: How many are kept.
    """

    def __init__(self, size: int = 1000) -> None:
        self._values, self._added = np.zeros(size), 0

    def add(self, value: float) -> None:
        """One more."""
        self._values[self._added % len(self._values)] = value
        self._added += 1

    def percentiles(self) -> tuple[float, float]:
        """Median and 99th percentile; 0 where there is none."""
        kept = self._values[: self._added].copy()
        if not len(kept):
            return 0.0, 0.0
        p50, p99 = np.percentile(kept, [50, 99])
        return float(p50), float(p99)
