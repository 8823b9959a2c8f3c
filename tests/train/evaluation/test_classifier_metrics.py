"""Numbers of what a classifier says, worked by hand."""

from __future__ import annotations

import pytest
import torch

from robo_rl.stats.intervals import wilson
from robo_rl.train.evaluation.classifier_metrics import (
    episode_metrics,
    label_agreement,
    row_metrics,
)

MARKED = torch.tensor([True, True, True, False, False])
TOLD = torch.tensor([True, True, False, True, False])


def test_episodes_have_wilsons_intervals():
    found = episode_metrics(MARKED, TOLD)
    for name, good, total in (("recall", 2, 3), ("precision", 2, 3), ("specificity", 1, 2)):
        low, high = wilson(good, total)
        number = found[name]
        assert (number["value"], number["n"]) == (good / total, total)
        assert (number["low"], number["high"]) == (low, high)


def test_where_nothing_is_called_a_success_there_is_no_precision():
    assert "precision" not in episode_metrics(MARKED, torch.zeros(5, dtype=torch.bool))


def test_agreement_is_said_with_its_counts():
    found = label_agreement(MARKED, TOLD)
    assert found["agreement"]["value"] == 3 / 5
    names = ("both_succeeded", "only_marked", "only_labelled", "neither")
    assert [found[name] for name in names] == [2, 1, 1, 1]


def test_intervals_of_rows_hold_their_values_and_are_wider_of_fewer_episodes():
    generator = torch.Generator().manual_seed(0)

    def of(episodes: int) -> dict[str, dict[str, float]]:
        odds = [2.0 * torch.randn(10, generator=generator) - 2.0 for _ in range(episodes)]
        done = [torch.rand(10, generator=generator) < each.sigmoid() for each in odds]
        return row_metrics(odds, done)

    few, many = of(15), of(240)
    for name in ("auroc", "ece", "brier"):
        assert 0.0 <= many[name]["low"] <= many[name]["value"] <= many[name]["high"] <= 1.0
    for name in ("auroc", "brier"):
        assert many[name]["high"] - many[name]["low"] < few[name]["high"] - few[name]["low"]
    assert many["auroc"]["value"] > 0.7
    assert many["ece"]["value"] < 0.05


@pytest.mark.parametrize("seed", range(8))
def test_a_value_of_few_episodes_is_in_its_interval_as_those_who_keep_it_demand(seed: int):
    generator = torch.Generator().manual_seed(seed)
    odds = [2.0 * torch.randn(10, generator=generator) - 2.0 for _ in range(30)]
    done = [torch.rand(10, generator=generator) < each.sigmoid() for each in odds]
    for name, each in row_metrics(odds, done).items():
        if name != "brier_of_the_share":
            assert 0.0 <= each["low"] <= each["value"] <= each["high"] <= 1.0, name


def test_who_always_says_the_share_is_as_wrong_as_the_share_varies():
    done = [torch.tensor([False, False, False, True]), torch.zeros(4, dtype=torch.bool)]
    odds = [torch.zeros(4), torch.zeros(4)]
    found = row_metrics(odds, done)
    assert found["brier_of_the_share"] == pytest.approx(1 / 8 * 7 / 8)
    assert found["brier"]["value"] == 0.25
