"""Intervals over a handful of runs cover what they claim to; published numbers."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from robo_rl.stats import across_runs
from robo_rl.stats.across_runs import (
    improvement_bounds,
    improvement_interval,
    iqm,
    probability_of_improvement,
    rate_interval,
    spread_interval,
    student_interval,
)
from robo_rl.stats.intervals import Interval, wilson

FEW = [3, 4, 10]
EXPERIMENTS = 1000
LOWEST = 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / EXPERIMENTS)  # a correct program: 999 in 1000


def rates_of(runs: int, mean: float, spread: float, episodes: int, tasks: int = 1) -> np.ndarray:
    """Success rates (experiments, runs, tasks) of runs whose true rates differ."""
    rng = np.random.default_rng(runs)
    total = mean * (1 - mean) / spread**2 - 1
    true = rng.beta(mean * total, (1 - mean) * total, size=(EXPERIMENTS, runs, tasks))
    return rng.binomial(episodes, true) / episodes


def stratified_bootstrap(
    scores: Any, statistic: Any, *, reps: int = 2000, confidence: float = 0.95, generator: Any = 0
) -> Interval:
    """The percentile interval of the resamples (Agarwal et al. 2021), too narrow for few runs."""
    table = across_runs._table(scores)
    drawn = across_runs._resampled(table, statistic, reps, generator)
    return across_runs._percentiles(drawn, confidence)


def covered(intervals: list[Interval], truth: float) -> float:
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def test_students_interval_equals_scipys():
    x = [0.7, 0.9, 0.75, 0.6]
    theirs = scipy_stats.ttest_1samp(x, 0.0).confidence_interval(0.9)
    assert student_interval(x, 0.9) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize("runs", FEW)
@pytest.mark.parametrize(("mean", "spread"), [(0.5, 0.1), (0.9, 0.03), (0.97, 0.005)])
def test_the_interval_of_a_rate_covers_as_often_as_stated(runs: int, mean: float, spread: float):
    drawn = rates_of(runs, mean, spread, 200)[..., 0]
    assert covered([rate_interval(each, 200 * runs) for each in drawn], mean) >= LOWEST


def test_three_runs_range_which_no_bootstrap_of_theirs_leaves_does_not():
    drawn = rates_of(3, 0.5, 0.1, 200)[:100, :, 0]
    bootstraps = [stratified_bootstrap(each, np.mean, reps=500) for each in drawn]
    ranges = [Interval(float(min(each)), float(max(each))) for each in drawn]
    inside = np.array(bootstraps) - np.array(ranges)
    assert (inside[:, 0] > -1e-9).all()
    assert (inside[:, 1] < 1e-9).all()
    assert covered(ranges, 0.5) == pytest.approx(0.75, abs=0.13)


def test_runs_that_all_agree_are_still_of_so_many_episodes():
    assert rate_interval([1.0, 1.0, 1.0], 600) == wilson(600, 600)
    almost = rate_interval([1.0, 1.0, 0.995], 200)
    assert almost.low < rate_interval([1.0, 1.0, 1.0], 200).low
    assert almost.low == pytest.approx(wilson(599 / 3, 200).low)
    low, high = rate_interval([0.0, 1.0], 400)
    assert (low, high) == (0.0, 1.0)  # Student's would go beyond
    assert rate_interval([0.5, 0.6], 0).low == max(0.0, student_interval([0.5, 0.6]).low)


UNLIKE = {"alike": [0.1, 0.1, 0.1], "unlike": [0.06, 0.1, 0.02], "one of them": [0.1, 0.0, 0.0]}


@pytest.mark.slow
@pytest.mark.parametrize("runs", FEW)
@pytest.mark.parametrize("tasks", UNLIKE)
def test_over_tasks_the_mean_is_covered_however_unlike_they_spread(runs: int, tasks: str):
    spreads, rng = UNLIKE[tasks], np.random.default_rng(runs)
    drawn = 0.5 + np.array(spreads) * rng.normal(size=(EXPERIMENTS, runs, len(spreads)))
    # Of variances that are neither alike nor one alone the degrees of freedom are approximate.
    assert covered([student_interval(each) for each in drawn], 0.5) >= LOWEST - 0.02
    plain = [stratified_bootstrap(each, np.mean, reps=200) for each in drawn[:200]]
    assert covered(plain, 0.5) < LOWEST


def test_degrees_of_freedom_are_those_of_welch_and_satterthwaite():
    x, y = [0.7, 0.9, 0.75, 0.6], [10.0, 12.0, 9.0, 11.0]
    welch = scipy_stats.ttest_ind(y, x, equal_var=False).confidence_interval(0.9)
    found = student_interval(np.array([x, y]).T, 0.9)
    # The mean of two has half the error that their difference has.
    assert found.high - found.low == pytest.approx((welch.high - welch.low) / 2, abs=1e-12)


def test_tasks_that_never_vary_have_an_interval_of_no_width_but_for_their_episodes():
    table = [[0.5, 1.0]] * 3
    assert student_interval(table) == (0.75, 0.75)
    for same in (0.3, 0.7, 0.93, 0.995):  # whose mean is not always the same in the last digit
        low, high = spread_interval([[same]] * 5, iqm)
        assert low == high
    assert rate_interval(table, 600) == wilson(450, 600)


_RARELY = [pytest.param(*each, marks=pytest.mark.slow) for each in ((4, 1), (3, 3), (3, 6))]


@pytest.mark.parametrize(("runs", "tasks"), [(10, 1), *_RARELY])
def test_an_interquartile_mean_is_covered(runs: int, tasks: int):
    rng = np.random.default_rng(runs * tasks)
    drawn = rng.normal(size=(150, runs, tasks))
    found = [spread_interval(each, iqm, reps=200) for each in drawn]
    assert covered(found, 0.0) >= 0.95 - 3.1 * math.sqrt(0.95 * 0.05 / 150)
    plain = [stratified_bootstrap(each, iqm, reps=200) for each in drawn]
    assert covered(plain, 0.0) < covered(found, 0.0)


@pytest.mark.parametrize(("runs", "tasks"), [(3, 1), (4, 1), (10, 1), (3, 2)])
def test_runs_that_are_wholly_apart_have_an_exact_bound(runs: int, tasks: int):
    new, ref = np.ones((runs, tasks)), np.zeros((runs, tasks))
    found = improvement_bounds(new, ref)
    # A probability p that is lower has all of the pairs fall one way with less than 2.5 %.
    assert found == pytest.approx((0.025 ** (1 / (runs * tasks)), 1.0))
    assert improvement_bounds(ref, new) == pytest.approx((0.0, 1.0 - found.low))


def test_tasks_that_are_tied_or_wholly_won_prove_no_more_than_their_pairs():
    """Six tasks, three runs of each: five at the ceiling for both methods, one won by all runs."""
    new, ref = np.ones((3, 6)), np.ones((3, 6))
    ref[:, -1] = 0.0
    found = improvement_bounds(new, ref)
    # The task that was won has a lower bound of 0.025^(1/3) by itself.
    assert found.low <= (2.5 + 0.025 ** (1 / 3)) / 6
    assert found.high > 7 / 12
    tied = improvement_bounds(np.ones((3, 2)), np.ones((3, 2)))
    assert tied.low < 0.5 < tied.high


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_who_wins_less_often_has_not_proven_more(runs: int):
    ref = np.arange(runs, dtype=float)
    beaten = [ref + runs, np.r_[ref[:1] + runs - 1.5, ref[1:] + runs]]
    all_won, nearly = (improvement_bounds(new, ref) for new in beaten)
    assert nearly.low <= all_won.low
    lost, hardly = (improvement_bounds(ref, new) for new in beaten)
    assert hardly.high >= lost.high


@pytest.mark.parametrize("runs", FEW)
@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_how_likely_a_run_is_better_is_covered(runs: int, shift: float):
    rng = np.random.default_rng(runs)
    truth = float(scipy_stats.norm.cdf(shift / math.sqrt(2)))
    found = [
        improvement_bounds(rng.normal(shift, size=runs), rng.normal(size=runs), reps=200)
        for _ in range(60)
    ]
    assert covered(found, truth) >= 0.85
    assert all(low < high for low, high in found)


def test_iqm_cuts_a_quarter_at_either_end():
    assert iqm([100.0, 2.0, 4.0, -50.0]) == 3.0
    assert iqm(np.arange(10.0).reshape(2, 5)) == np.arange(2, 8).mean()
    scores = np.random.default_rng(0).normal(size=(7, 3))
    assert iqm(scores) == pytest.approx(scipy_stats.trim_mean(scores.ravel(), 0.25))


def test_the_bootstrap_gives_the_quantiles_of_all_resamples():
    scores = np.array([[0.0, 10.0], [1.0, 30.0], [3.0, 70.0]])
    resamples = [
        np.stack([scores[list(first), 0], scores[list(second), 1]], axis=1)
        for first in itertools.product(range(3), repeat=3)
        for second in itertools.product(range(3), repeat=3)
    ]
    means = [resample.mean() for resample in resamples]
    drawn = stratified_bootstrap(scores, np.mean, reps=20_000, confidence=0.8, generator=1)
    # The share of resamples at or below a limit, within 5 standard errors of 20,000 draws.
    for limit, share in zip(drawn, (0.1, 0.9), strict=True):
        assert np.mean(np.less(means, limit - 1e-9)) <= share + 5 * math.sqrt(0.09 / 20_000)
        assert np.mean(np.less_equal(means, limit + 1e-9)) >= share - 5 * math.sqrt(0.09 / 20_000)


def test_resamples_are_drawn_within_tasks():
    # Runs that all agree within a task leave nothing to draw, however far apart the tasks are.
    scores = np.array([[1.0, 100.0]] * 5)
    assert spread_interval(scores, iqm, reps=50) == Interval(50.5, 50.5)


def test_an_interval_repeats_with_its_generator():
    new, ref = np.random.default_rng(3).normal(size=(2, 30))
    first, again, other = (
        improvement_interval(new, ref, reps=200, generator=seed) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_probability_of_improvement_counts_pairs_within_tasks():
    # Task 1: 2 > {1, 0}, 0 > nothing and ties 0: 2.5 of 4. Task 2: all of 4.
    new, ref = [[2.0, 9.0], [0.0, 8.0]], [[1.0, 1.0], [0.0, 2.0]]
    assert probability_of_improvement(new, ref) == (2.5 / 4 + 1.0) / 2
    x, y = np.random.default_rng(0).normal(size=(2, 9))
    u = scipy_stats.mannwhitneyu(x[:5], y).statistic
    assert probability_of_improvement(x[:5], y) == pytest.approx(u / 45)


RLIABLE = json.loads((Path(__file__).parent / "rliable_numbers.json").read_text())


def test_aggregates_are_rliables():
    a, b = (np.array(RLIABLE[name]) for name in "ab")
    assert [iqm(a), iqm(b)] == pytest.approx([RLIABLE["iqm"][name] for name in "ab"], abs=1e-12)
    found = probability_of_improvement(a, b)
    assert found == pytest.approx(RLIABLE["improvement"], abs=1e-12)
    assert probability_of_improvement(b, a) == pytest.approx(1 - found, abs=1e-12)


def test_intervals_are_rliables_up_to_the_luck_of_the_draw():
    a, b = (np.array(RLIABLE[name]) for name in "ab")
    draws = {
        "iqm a": stratified_bootstrap(a, iqm, reps=10_000),
        "iqm b": stratified_bootstrap(b, iqm, reps=10_000),
        "mean a": stratified_bootstrap(a, lambda x: float(x.mean()), reps=10_000),
        "improvement": improvement_interval(a, b, reps=10_000),
    }
    for name, interval in draws.items():
        assert interval == pytest.approx(RLIABLE["intervals"][name], abs=0.008)
