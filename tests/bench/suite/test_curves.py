"""Learning curves: thinning loses no episode; pooled rates and thresholds by hand."""

from __future__ import annotations

import math

import pytest

from robo_rl.bench.suite.curves import (
    Point,
    eval_curve,
    first_reaching,
    pooled_returns,
    pooled_success,
    training_curve,
)


def line(step: int, episodes: float, success: float | None, **more: float) -> dict[str, float]:
    rate = math.nan if success is None else success
    times = {"collect_s": 0.5, "update_s": 1.0}
    return {"step": step, "env_steps": 100 * step, "episodes": episodes, "success": rate} | (
        times | more
    )


def curve(*counts: tuple[int, int]) -> list[Point]:
    """Points of so many episodes, so many of them good."""
    return [Point(100 * i, 2.0 * i, n, good, 0.0) for i, (n, good) in enumerate(counts, 1)]


def test_every_update_is_a_point_where_there_are_few():
    points = training_curve([line(1, 0, None), line(2, 4, 0.25, **{"return": 3.0})])
    assert points[0][:4] == (100, 1.5, 0, 0)
    assert math.isnan(points[0].returns)
    assert points[1] == Point(200, 3.0, 4, 1, 3.0)


@pytest.mark.parametrize("updates", [200, 201, 1000, 1003])
def test_thinning_keeps_every_episode_and_second(updates):
    counts = [(i % 7, min(i % 7, i % 4)) for i in range(1, updates + 1)]
    lines = [line(i, n, good / n if n else None) for i, (n, good) in enumerate(counts, 1)]
    points = training_curve(lines)
    assert len(points) <= 200
    assert points[-1].env_steps == 100 * updates
    assert points[-1].seconds == pytest.approx(1.5 * updates)
    found = sum(p.episodes for p in points), sum(p.successes for p in points)
    assert found == (sum(n for n, _ in counts), sum(good for _, good in counts))


def test_looks_on_the_way_are_points_at_the_time_of_training_so_far():
    seen = {"eval/episodes": 20.0, "eval/success": 0.35, "eval/return": -4.0}
    rows = [line(1, 9, 1.0), line(2, 9, 1.0, **seen), line(3, 9, 1.0), line(4, 9, 1.0, **seen)]
    assert eval_curve(rows) == [Point(200, 3.0, 20, 7, -4.0), Point(400, 6.0, 20, 7, -4.0)]
    assert eval_curve(rows[:1]) == []


def test_returns_are_weighted_by_their_episodes():
    rows = [line(i, i, 1.0, **{"return": float(i)}) for i in range(1, 401)]
    assert training_curve(rows)[0] == pytest.approx((200, 3.0, 3, 3, (1 + 2 * 2) / 3))


def test_rates_are_pooled_over_the_fewest_latest_points_that_hold_the_window():
    points = curve((6, 6), (0, 0), (4, 2), (10, 9), (5, 0), (5, 5))
    # 6 of 6 is too few; 8 of 10; the last 10 alone: 9; 10 + 5: 9 of 15; 5 + 5: 5 of 10
    rates = pooled_success(points, 10)
    assert [math.isnan(rate) for rate in rates] == [True, True, False, False, False, False]
    assert rates[2:] == pytest.approx([0.8, 0.9, 0.6, 0.5])


def test_returns_are_pooled_alike():
    points = [
        Point(i, 0.0, n, 0, r) for i, (n, r) in enumerate([(4, 1.0), (0, math.nan), (6, 3.0)])
    ]
    rates = pooled_returns(points, 10)
    assert rates[2] == pytest.approx((4 * 1.0 + 6 * 3.0) / 10)
    assert math.isnan(rates[0])
    assert pooled_returns(points, 6)[2] == 3.0


def test_a_threshold_is_reached_at_the_first_point_on_or_above_it():
    points = curve((6, 6), (0, 0), (4, 2), (10, 9), (5, 0), (5, 5))
    assert first_reaching(points, 0.8, 10) == points[2]
    assert first_reaching(points, 0.9, 10) == points[3]
    assert first_reaching(points, 0.91, 10) is None
    assert first_reaching([], 0.1, 10) is None
