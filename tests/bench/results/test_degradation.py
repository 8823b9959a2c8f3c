"""A fall is seen where there is one, and chance is not taken for one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robo_rl.bench.results.degradation import (
    CurveBlock,
    curve_blocks,
    degradation_depth,
    has_degraded,
)
from robo_rl.bench.suite.curves import Point, pooled_success

UPDATES, EPISODES, WINDOW, FALL = 240, 25, 200, 0.05


def curve(*counts: tuple[int, int]) -> list[Point]:
    """Points of so many episodes, so many of them good."""
    return [Point(100 * i, 2.0 * i, n, good, 0.0) for i, (n, good) in enumerate(counts, 1)]


def runs(rates: np.ndarray, count: int, seed: int = 0) -> list[list[Point]]:
    """Runs of so many episodes an update, at these success rates, two updates a point."""
    generator = np.random.default_rng(seed)
    good = generator.binomial(EPISODES, rates, size=(count, UPDATES)).reshape(count, -1, 2)
    return [curve(*((2 * EPISODES, int(n)) for n in row)) for row in good.sum(axis=2)]


def share_fallen(found: list[list[Point]]) -> float:
    return sum(has_degraded(points, WINDOW, FALL) for points in found) / len(found)


def test_blocks_are_counted_from_the_end_and_share_no_episode():
    points = curve((6, 6), (0, 0), (4, 2), (10, 9), (5, 0), (5, 5))
    assert curve_blocks(points, 10) == [CurveBlock(10, 8), CurveBlock(10, 9), CurveBlock(10, 5)]
    assert curve_blocks(points[1:], 10) == [CurveBlock(10, 9), CurveBlock(10, 5)]
    assert curve_blocks(points, 31) == curve_blocks([], 1) == []


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_a_run_of_constant_success_has_not_fallen(rate: float):
    found = runs(np.full(UPDATES, rate), 400)
    assert share_fallen(found) <= 0.01
    rates = np.array([pooled_success(points, WINDOW) for points in found[:100]])
    lucky = np.nanmax(rates, axis=1) - rates[:, -1]
    assert (lucky > FALL).mean() > 0.3  # what the best of all windows would say


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_nor_has_one_that_ends_just_so_far_below(rate: float):
    rates = np.full(UPDATES, rate)
    rates[-40:] -= FALL
    assert share_fallen(runs(rates, 400)) <= 0.01


@pytest.mark.parametrize(("rate", "seen"), [(0.5, 0.7), (0.9, 0.9)])
@pytest.mark.parametrize("since", [8, 60])
def test_a_fall_of_twenty_points_at_the_end_is_seen(rate: float, seen: float, since: int):
    rates = np.full(UPDATES, rate)
    rates[-since:] -= 0.2
    assert share_fallen(runs(rates, 200)) >= seen


def test_one_that_has_recovered_or_only_risen_has_not_fallen():
    dip, rise = np.full(UPDATES, 0.9), np.linspace(0.1, 0.95, UPDATES)
    dip[100:140] = 0.2
    assert share_fallen(runs(dip, 100)) == share_fallen(runs(rise, 100)) == 0.0


def test_short_curves_have_not_fallen():
    assert not has_degraded([], 10, FALL)
    assert not has_degraded(curve((9, 9)), 10, FALL)
    assert not has_degraded(curve((10, 10), (9, 0)), 10, FALL)
    assert has_degraded(curve((50, 50), (50, 5)), 50, FALL)


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_of_constant_success_the_mean_depth_is_nothing(rate: float):
    found = [degradation_depth(points, WINDOW) for points in runs(np.full(UPDATES, rate), 300)]
    assert abs(np.mean(found)) < 3.5 * np.std(found) / math.sqrt(300)
    assert np.std(found) < 0.06


def test_a_true_fall_is_as_deep_as_it_is():
    rates = np.full(UPDATES, 0.9)
    rates[-16:] = 0.5
    found = [degradation_depth(points, WINDOW) for points in runs(rates, 100)]
    assert np.mean(found) == pytest.approx(0.4, abs=0.015)


def test_depth_by_hand():
    assert degradation_depth(curve((100, 100), (100, 0)), 100) == 1.0
    assert degradation_depth(curve((100, 0), (100, 100)), 100) == 0.0
    assert math.isnan(
        degradation_depth(curve((100, 50)), 100)
    )  # nothing that it could have fallen from
    assert math.isnan(degradation_depth(curve((3, 2)), 10))
    points = runs(np.full(UPDATES, 0.7), 1)[0]
    assert degradation_depth(points, WINDOW) == degradation_depth(points, WINDOW)
