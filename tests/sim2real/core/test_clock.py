"""Keeping time on a clock that is handed in."""

from __future__ import annotations

import gc
import time
import weakref

import numpy as np
import pytest

from robo_rl_sim2real.core.clock import (
    Clock,
    PeriodicTimer,
    RecentDurations,
    SuspensionOffset,
    boot_clock,
    freeze_garbage_collector,
)


class Hand:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds + 0.0003  # sleeping is never exact

    def clock(self) -> Clock:
        return Clock(self.now_s, self.sleep)


def test_late_wake_ups_do_not_add_up():
    hand = Hand()
    ticks = PeriodicTimer(0.02, hand.clock())
    numbers = [number for number, _ in zip(ticks, range(501), strict=False)]
    assert numbers == list(range(1, 502))
    assert hand.time_s == pytest.approx(100.0 + 502 * 0.02, abs=0.001)
    assert ticks.missed == 0


@pytest.mark.parametrize(("work_s", "missed"), [(0.019, 0), (0.025, 0), (0.045, 1), (0.105, 4)])
def test_what_takes_too_long_costs_the_periods_that_it_took(work_s, missed):
    hand = Hand()
    ticks = PeriodicTimer(0.02, hand.clock())
    periods = iter(ticks)
    next(periods)
    hand.time_s += work_s
    late = next(periods)
    assert ticks.missed == missed
    assert late == 2 + missed
    following, began = [], []
    for _ in range(3):
        following.append(next(periods))
        began.append(hand.time_s)
    assert following == [late + 1, late + 2, late + 3]
    # on the grid, and no burst to catch up
    np.testing.assert_allclose(began, 100.0 + 0.02 * np.array(following), atol=1e-3)


@pytest.mark.parametrize("suspended", [5.0, -5.0])
def test_ages_on_the_clock_of_the_boot_include_a_suspension(suspended: float):
    """In a container with a time of its own that clock may be behind the other."""
    standing = Hand()
    convert = SuspensionOffset(lambda: standing.time_s + suspended, standing.now_s)
    assert convert(99.0) == 99.0 + suspended
    suspended += 60.0
    assert convert(99.0) == 99.0 + suspended


def test_a_delay_between_two_looks_at_the_clocks_makes_nothing_fresher():
    standing, late_s = Hand(), 0.0

    def read() -> float:
        now_s = standing.time_s + 5.0
        standing.time_s += late_s  # the process waits for the processor here
        return now_s

    convert = SuspensionOffset(read, standing.now_s)
    assert convert(99.0) == 104.0
    late_s = 0.5
    assert convert(99.0) == 104.0


def test_a_time_of_now_is_one_of_now_on_the_clock_of_the_boot():
    clock = boot_clock()
    before_s, stamp_s = clock.now_s(), time.monotonic()
    assert before_s - 0.1 <= clock.from_monotonic(stamp_s) <= clock.now_s()


def test_percentiles_are_of_the_latest():
    recent = RecentDurations(100)
    assert recent.percentiles() == (0.0, 0.0)
    for value in range(1000):
        recent.add(float(value))
    assert recent.percentiles() == (949.5, pytest.approx(998.01))


class Node:
    """Something that holds on to itself."""

    def __init__(self) -> None:
        self.me = self


def test_what_was_there_is_never_looked_at_again_and_what_comes_later_is():
    settled = Node()
    try:
        freeze_garbage_collector()
        assert all(each is not settled for each in gc.get_objects())
        later = weakref.ref(Node())
        gc.collect()
        assert later() is None
    finally:
        gc.unfreeze()
