"""The fall test: exact bounds, hand-worked returns, false alarms and delays by simulation."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

import numpy as np
import pytest
import torch

from robo_rl.train.rl.guard.score_drop import (
    EpisodeStats,
    ScoreDropDetector,
    confidence_bounds,
    return_stats,
    success_stats,
)

LEVEL = 3e-6
CELL = 100


def watch(*, binary: bool = True, level: float = LEVEL, group_size: int = 1) -> ScoreDropDetector:
    watch = ScoreDropDetector(level, group_size)
    watch.restart(binary=binary)
    return watch


def first_alarm(watch: ScoreDropDetector, cells: Iterable[EpisodeStats]) -> int | None:
    return next((i for i, cell in enumerate(cells) if watch.update(cell)), None)


def rates(rng: np.random.Generator, *stretches: tuple[float, int]) -> list[EpisodeStats]:
    """Cells at given success rates, each for a number of cells."""
    per_cell = np.concatenate([np.full(cells, rate) for rate, cells in stretches])
    return [EpisodeStats(CELL, float(s), 0.0) for s in rng.binomial(CELL, per_cell)]


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
def test_a_constant_success_rate_raises_no_alarm_in_long_runs(rate):
    """1,000 blocks of 25 episodes a run; below 1 % of runs may err, so none of 15 should."""
    rng = np.random.default_rng(0)
    alarms = [first_alarm(watch(), rates(rng, (rate, 250))) for _ in range(15)]
    assert alarms == [None] * 15


def test_groups_of_equal_episodes_count_once():
    """16 starts of 8 episodes each, which all agree: 16 of 16, then 11 of 16."""
    cells = [EpisodeStats(128, 128.0, 0.0), EpisodeStats(128, 88.0, 0.0)]
    assert first_alarm(watch(), cells) == 1
    assert first_alarm(watch(group_size=8), cells) is None
    bounds = confidence_bounds(cells[0], LEVEL, binary=True, group_size=8)
    assert bounds.low == pytest.approx(LEVEL ** (1 / 16))


def test_a_constant_rate_of_groups_raises_no_alarm():
    rng = np.random.default_rng(3)
    alarms = []
    for _ in range(30):
        wins = 8.0 * rng.binomial(16, 0.85, size=60)
        cells = [EpisodeStats(128, float(won), 0.0) for won in wins]
        alarms.append(first_alarm(watch(group_size=8), cells))
    assert alarms == [None] * 30


def test_bounds_that_err_often_would_raise_alarms():
    rng = np.random.default_rng(0)
    alarms = [first_alarm(watch(level=2e-3), rates(rng, (0.9, 250))) for _ in range(5)]
    assert sum(alarm is not None for alarm in alarms) >= 3


@pytest.mark.parametrize(("drop", "cells"), [(0.05, 60), (0.1, 9), (0.2, 2)])
def test_a_fall_is_seen_the_sooner_the_deeper_it_is(drop, cells):
    rng, good = np.random.default_rng(1), 30
    alarms = [first_alarm(watch(), rates(rng, (0.9, good), (0.9 - drop, 100))) for _ in range(9)]
    delays = [math.inf if alarm is None else alarm - good + 1 for alarm in alarms]
    assert min(delays) >= 1
    assert median(delays) <= cells


def test_learning_is_no_fall():
    rng = np.random.default_rng(2)
    rising = [(rate, 1) for rate in np.linspace(0.1, 0.99, 150)]
    assert all(first_alarm(watch(), rates(rng, *rising)) is None for _ in range(5))


def test_successes_get_exact_bounds():
    # none of 10: the upper bound u has (1 − u)^10 = 0.05
    low, high = confidence_bounds(
        success_stats(torch.zeros(10, dtype=torch.bool)), 0.05, binary=True
    )
    assert low == 0.0
    assert high == pytest.approx(1.0 - 0.05**0.1)


def test_returns_are_trimmed_as_yuen_does():
    """1 … 20, two cut at either end: mean of 3 … 18 is 10.5.

    Winsorised: 3, 3, 3, 4 … 17, 18, 18, 18, whose squares about 10.5 sum to 6·7.5² + 2·(6.5² +
    5.5² + 4.5² + 3.5² + 2.5² + 1.5² + 0.5²) = 337.5 + 227.5 = 565; over 16·15 that is 2.354167.
    """
    tally = return_stats(torch.arange(1.0, 21.0)[torch.randperm(20)])
    assert tally.mean == pytest.approx(10.5)
    assert tally.spread / 20**2 == pytest.approx(565 / 240)
    wild = return_stats(torch.tensor([*range(1, 20), 1e6]))
    assert wild.mean == pytest.approx(10.5)


def cells_of_returns(rng: np.random.Generator, *means: tuple[float, int]) -> list[EpisodeStats]:
    """Returns with a heavy tail: one in twenty episodes ends at once, one in fifty runs away."""
    cells = []
    for mean, count in means:
        for _ in range(count):
            returns = rng.normal(mean, 300.0, CELL)
            returns[rng.random(CELL) < 0.05] = 10.0
            returns[rng.random(CELL) < 0.02] *= 10.0
            cells.append(return_stats(torch.from_numpy(returns)))
    return cells


def test_returns_with_heavy_tails_raise_no_alarm_and_a_fall_by_a_tenth_does():
    rng = np.random.default_rng(3)
    steady = [first_alarm(watch(binary=False), cells_of_returns(rng, (1e3, 250))) for _ in range(8)]
    assert steady == [None] * 8
    falling = (cells_of_returns(rng, (1e3, 30), (900.0, 30)) for _ in range(8))
    delays = [(first_alarm(watch(binary=False), cells) or math.inf) - 29 for cells in falling]
    assert min(delays) >= 1
    assert median(delays) <= 10


def test_returns_that_do_not_vary_are_not_judged_by_rounding():
    same = [EpisodeStats(CELL, CELL * mean, 0.0) for mean in (500.0, 500.0, 500.0 - 1e-6)]
    assert first_alarm(watch(binary=False), same) is None
    assert first_alarm(watch(binary=False), [*same, EpisodeStats(CELL, CELL * 400.0, 0.0)]) == 3


def test_a_fall_too_small_to_matter_is_none_however_sure():
    """Where a policy does the same over and over, a hundredth less is certain and no collapse."""
    slow = [EpisodeStats(CELL, CELL * (500.0 - i / 10), 1e-9) for i in range(60)]
    assert first_alarm(watch(binary=False), slow) is None
    sudden = [EpisodeStats(CELL, CELL * mean, 1e-9) for mean in (500.0, 500.0, 495.0)]
    assert first_alarm(watch(binary=False), sudden) is None


@pytest.mark.parametrize("group_size", [1, 7])
def test_it_continues_from_its_state(group_size: int):
    cells = rates(np.random.default_rng(4), (0.9, 20), (0.4, 10))
    one, two = watch(group_size=group_size), watch(group_size=group_size)
    assert first_alarm(one, cells[:20]) is None
    two.load_state_dict(one.state_dict())
    assert first_alarm(one, cells[20:]) == first_alarm(two, cells[20:]) is not None
