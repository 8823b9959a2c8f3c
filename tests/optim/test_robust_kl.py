"""The mean that controls the step size has a bound where one row has none."""

from __future__ import annotations

import math

import pytest
import torch

from robo_rl.optim.robust_kl import RobustKl, winsorized_mean


def test_by_hand():
    rows = torch.tensor([1.0, 5.0, 2.0, 100.0])
    assert float(winsorized_mean(rows, 0.25)) == pytest.approx((1.0 + 2.0 + 5.0 + 5.0) / 4)
    assert float(winsorized_mean(rows, 0.26)) == pytest.approx((1.0 + 2.0 + 2.0 + 2.0) / 4)
    assert RobustKl.of(rows, 0.25) == (3.25, 27.0, 100.0)


@pytest.mark.parametrize("rows", [3, 20, 1000])
def test_one_outlier_does_not_move_it(rows: int, generator):
    kl = torch.rand(rows, generator=generator).double()
    worse = kl.clone()
    worse[kl.argmax()] = math.inf
    assert winsorized_mean(worse, 0.01) == winsorized_mean(kl, 0.01)
    assert winsorized_mean(worse, 0.0).isinf()


@pytest.mark.parametrize("trim", [0.0, 0.01, 0.4])
def test_what_is_not_a_number_shows(trim: float):
    rows = torch.ones(100)
    rows[3] = math.nan
    assert winsorized_mean(rows, trim).isnan()


def test_light_tails_lose_little(generator):
    """Of the squares of normal numbers the largest hundredth holds 8 %, above the rest 2 %."""
    rows = torch.randn(100_000, generator=generator).square()
    assert 0.96 < float(winsorized_mean(rows, 0.01) / rows.mean()) < 0.99


def test_a_single_row_is_its_mean():
    assert float(winsorized_mean(torch.tensor([7.0]), 0.01)) == 7.0
