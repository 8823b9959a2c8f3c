"""Keeping time on a clock that is handed in."""

from __future__ import annotations

import itertools

import pytest

from robo_rl_sim2real.ticks import Clock, Recent, Ticks


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
    ticks = Ticks(0.02, hand.clock())
    times = [now for now, _ in zip(ticks, range(500), strict=False)]
    assert times[-1] == pytest.approx(100.0 + 500 * 0.02, abs=0.001)
    assert ticks.missed == 0


@pytest.mark.parametrize(("work_s", "missed"), [(0.019, 0), (0.025, 0), (0.045, 1), (0.105, 4)])
def test_what_takes_too_long_costs_the_periods_that_it_took(work_s, missed):
    hand = Hand()
    ticks = Ticks(0.02, hand.clock())
    periods = iter(ticks)
    next(periods)
    hand.time_s += work_s
    late = next(periods)
    assert ticks.missed == missed
    following = [next(periods) for _ in range(3)]
    steps = [b - a for a, b in itertools.pairwise([late, *following])]
    assert all(step <= 0.021 for step in steps)  # and no burst to catch up
    assert following[-1] == pytest.approx(
        100.0 + round((following[-1] - 100.0) / 0.02) * 0.02, abs=1e-3
    )


def test_percentiles_are_of_the_latest():
    recent = Recent(100)
    assert recent.percentiles() == (0.0, 0.0)
    for value in range(1000):
        recent.add(float(value))
    assert recent.percentiles() == (949.5, pytest.approx(998.01))
