"""How many episodes would tell: that many do, and one fewer does not."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.stats.intervals import Interval, wilson
from robo_rl.stats.paired_tests import newcombe_interval, paired_change, tango_interval
from robo_rl.stats.power import (
    episodes_by_sqrt_n,
    episodes_for_difference,
    episodes_for_rate,
    min_pairs,
    pairs_needed,
)


def apart(interval: Interval, threshold: float) -> bool:
    return interval.low > threshold or interval.high < threshold


@pytest.mark.parametrize("only_new", [0, 3, 8])
@pytest.mark.parametrize("only_ref", [0, 2, 9, 30])
@pytest.mark.parametrize("margin", [0.01, 0.03, 0.1])
def test_so_many_pairs_tell_and_one_fewer_does_not(only_new: int, only_ref: int, margin: float):
    n = 211

    def tells(pairs: int) -> bool:
        share = pairs / n
        return apart(tango_interval(only_new * share, only_ref * share, pairs), -margin)

    found = pairs_needed(only_new, only_ref, n, margin)
    assert found is not None
    assert tells(found)
    assert not tells(found - 1)
    more = [found + step for step in (1, 2, 10, 100, 1000)]
    assert all(tells(pairs) for pairs in more)  # no gap behind it


def test_a_difference_that_is_the_margin_is_never_told():
    assert pairs_needed(0, 6, 200, 0.03) is None
    assert episodes_for_rate(0.5, 0.5) is None
    assert episodes_for_difference(0.9, 0.9) is None
    assert episodes_by_sqrt_n(50, 0.2, Interval(0.1, 0.3), 0.2) is None
    assert episodes_by_sqrt_n(1, 0.2, Interval(-np.inf, np.inf), 0.0) is None


@pytest.mark.parametrize("margin", [0.005, 0.03, 0.1, 0.3])
def test_the_closed_form_of_pairs_that_all_agree(margin: float):
    n = min_pairs(margin)
    assert tango_interval(0, 0, n).low > -margin >= tango_interval(0, 0, n - 1).low
    assert pairs_needed(0, 0, 10, margin) == n
    assert min_pairs(0.03) == 125


@pytest.mark.parametrize(("rate", "floor"), [(0.9, 0.8), (0.6, 0.7), (1.0, 0.5), (0.0, 0.05)])
def test_so_many_episodes_put_a_rate_on_one_side_of_a_floor(rate: float, floor: float):
    n = episodes_for_rate(rate, floor)
    assert n is not None
    assert apart(wilson(rate * n, n), floor)
    assert not apart(wilson(rate * (n - 1), n - 1), floor)


def test_so_many_episodes_tell_two_rates_apart():
    n = episodes_for_difference(0.95, 0.9)
    assert n is not None
    assert apart(newcombe_interval(0.95 * n, n, 0.9 * n, n), 0.0)
    assert not apart(newcombe_interval(0.95 * (n - 1), n - 1, 0.9 * (n - 1), n - 1), 0.0)


def test_returns_that_cannot_be_told_are_told_by_about_so_many():
    rng = np.random.default_rng(0)

    def compared(n: int):
        ref = rng.normal(100.0, 5.0, n)
        return paired_change(ref - 1.0 + rng.normal(0.0, 20.0, n), ref, 0.05)

    few = compared(100)
    assert few.verdict == "cannot tell"
    needed = episodes_by_sqrt_n(100, few.difference, few.interval, -0.05)
    assert needed is not None
    assert needed > 100
    told = [compared(2 * needed).noninferior for _ in range(20)]
    assert np.mean(told) > 0.5
