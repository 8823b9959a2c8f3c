"""What errors that were measured say of the next one."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl.ope.conformal import conformal_quantile, distance_outside, widen
from robo_rl.stats.intervals import Interval


@pytest.mark.parametrize(("truth", "far"), [(0.1, 0.2), (0.3, 0.0), (0.4, -0.1), (0.9, 0.3)])
def test_far_is_what_lies_between_truth_and_interval(truth: float, far: float):
    assert distance_outside(Interval(0.3, 0.6), truth) == pytest.approx(far)


def test_an_interval_that_is_widened_by_its_score_just_reaches_the_truth():
    interval = Interval(0.3, 0.6)
    for truth in (0.0, 0.5, 1.0):
        assert distance_outside(
            widen(interval, distance_outside(interval, truth)), truth
        ) == pytest.approx(0.0)


@pytest.mark.parametrize("number", [20, 39, 100])
def test_the_next_score_is_below_as_often_as_was_asked(number: int):
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4000, number + 1, generator=generator).tolist()
    below = sum(each[-1] <= conformal_quantile(each[:-1]) for each in drawn) / len(drawn)
    expected = math.ceil(0.95 * (number + 1)) / (number + 1)
    assert below == pytest.approx(expected, abs=0.015)  # four standard errors
    assert below > 0.935


def test_too_few_scores_say_nothing():
    assert conformal_quantile([0.1] * 18) == math.inf
    assert conformal_quantile([0.1] * 19) == 0.1
