"""Measures of probabilities against numbers worked by hand, and the temperature that mends them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from robo_rl.world.calibration import (
    auroc,
    best_threshold,
    brier,
    calibration_error,
    correct_prior,
    ensemble_log_odds,
    fit_temperature,
)


def yes(*labels: int) -> Tensor:
    return torch.tensor(labels, dtype=torch.bool)


def test_auroc_is_the_share_of_pairs_in_order_and_half_of_the_ties():
    # pairs of a 1 and a 0: (3,1) (3,2) (2,1) in order, (2,2) a tie
    assert auroc(torch.tensor([3.0, 2.0, 1.0, 2.0]), yes(1, 1, 0, 0)) == pytest.approx(3.5 / 4)
    assert auroc(torch.tensor([1.0, 2.0]), yes(1, 0)) == 0.0
    assert auroc(torch.zeros(7), yes(1, 0, 0, 1, 0, 0, 0)) == 0.5


def test_auroc_knows_order_alone():
    scores = torch.randn(500, generator=torch.Generator().manual_seed(0))
    labels = torch.rand(500, generator=torch.Generator().manual_seed(1)) < scores.sigmoid()
    assert auroc(scores.exp(), labels) == pytest.approx(auroc(scores, labels), abs=1e-9)


def test_calibration_error_and_brier_worked_by_hand():
    probability = torch.tensor([0.1, 0.1, 0.9, 1.0])
    labels = yes(0, 1, 1, 1)
    # two bins: |1 - 0.2| = 0.8 in the lower, |2 - 1.9| = 0.1 in the upper, of 4 rows
    assert calibration_error(probability, labels, bins=2) == pytest.approx(0.9 / 4, abs=1e-6)
    assert brier(probability, labels) == pytest.approx((0.01 + 0.81 + 0.01) / 4, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_temperature_that_made_the_labels_is_found_beneath_a_prior(temperature: float):
    generator = torch.Generator().manual_seed(0)
    balanced = 3.0 * temperature * torch.randn(20_000, generator=generator)
    chance = correct_prior(balanced, temperature, -2.0).sigmoid()
    labels = torch.rand(20_000, generator=generator) < chance
    found = fit_temperature(balanced, labels, -2.0)
    assert found == pytest.approx(temperature, rel=0.1)
    error = calibration_error(correct_prior(balanced, found, -2.0).sigmoid(), labels)
    assert error < 0.015
    assert error < calibration_error(balanced.sigmoid(), labels) - 0.05


def test_what_is_told_apart_without_an_error_keeps_a_temperature():
    balanced = torch.tensor([-3.0, -2.0, 2.0, 3.0])
    assert fit_temperature(balanced, yes(0, 0, 1, 1), 0.0) == pytest.approx(1 / 20)
    assert fit_temperature(balanced, yes(1, 1, 0, 0), 0.0) == pytest.approx(20.0)


def test_members_say_their_mean_probability_together():
    members = torch.tensor([[0.0, 40.0, -90.0], [math.log(3.0), 40.0, -90.0]])
    found = ensemble_log_odds(members)
    assert float(found[0].sigmoid()) == pytest.approx((0.5 + 0.75) / 2)
    torch.testing.assert_close(found[1:], torch.tensor([40.0, -90.0]))


def test_the_cut_is_in_the_widest_of_the_best_gaps():
    probability = torch.tensor([0.1, 0.2, 0.6, 0.7])
    assert best_threshold(probability, yes(0, 0, 1, 1)) == pytest.approx(0.4)
    # below 0.2 and above 0.6 are told three of four right, and the upper gap is the wider one
    probability = torch.tensor([0.1, 0.2, 0.6, 0.9])
    assert best_threshold(probability, yes(0, 1, 0, 1)) == pytest.approx(0.75)
    assert best_threshold(torch.full((3,), 0.25), yes(1, 0, 0)) == 0.25
