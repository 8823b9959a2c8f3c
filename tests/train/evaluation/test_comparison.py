"""Comparison of two evaluations on the same starts, also where worlds were lost."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robo_rl.train.evaluation.comparison import compare, format_comparison, lowest_mean_returns
from robo_rl.train.evaluation.evaluate import EvalResult, Measure


def measured(returns: list[float], measure: Measure, success: Tensor | None = None) -> EvalResult:
    values = torch.tensor(returns)
    won = torch.zeros(len(values), dtype=torch.bool) if success is None else success
    return EvalResult(won, values, torch.ones(len(values), dtype=torch.int64), "hash", measure)


def test_successes_are_compared_where_they_are_judged():
    won = torch.ones(40, dtype=torch.bool)
    good, bad = measured([0.0] * 40, "success", won), measured([9.0] * 40, "success", ~won)
    assert compare(good, bad, 0.03).noninferior
    assert compare(bad, good, 0.03).verdict == "inferior"
    assert "mean return" not in format_comparison(compare(bad, good, 0.03), "success")


def test_returns_are_compared_as_shares_of_the_reference():
    ref = [80.0, 100.0, 120.0, 90.0, 110.0] * 8  # 100 in the mean
    lower = measured([value - 5.0 for value in ref], "return")
    test = compare(lower, measured(ref, "return"), 0.1)
    assert test.difference == pytest.approx(-0.05)
    assert test.noninferior
    assert compare(lower, measured(ref, "return"), 0.04).verdict == "inferior"
    said = format_comparison(test, "return")
    assert said.startswith("difference -5.0% [-5.")
    assert said.endswith("] of the mean return, margin −10.0%")


def test_an_outcome_of_a_lost_world_widens_the_interval_on_the_side_it_may_lie():
    won = torch.ones(40, dtype=torch.bool)
    row = torch.arange(40)
    whole, some = measured([1.0] * 40, "success", row > 9), measured([1.0] * 40, "success", won)
    before = compare(whole, some, 0.03)
    lost = compare(whole._replace(lost=row < 5), some, 0.03)
    assert lost.difference == before.difference
    assert lost.interval.low == before.interval.low
    assert (
        lost.interval.high
        == compare(whole._replace(success=(row > 9) | (row < 5)), some, 0.03).interval.high
    )
    kept = compare(whole._replace(lost=row > 35), some, 0.03)  # it succeeded before its loss
    assert kept == before


def test_a_lost_return_lies_between_the_lowest_and_the_highest():
    ref = measured([80.0, 100.0, 120.0, 100.0] * 10, "return")
    gone = torch.arange(40) == 1
    new = ref._replace(returns=torch.where(gone, 900.0, ref.returns), lost=gone)
    test = compare(new, ref, 0.02)
    assert test.interval.low < 0.0 < test.interval.high < 0.05
    assert lowest_mean_returns([new, ref]) == pytest.approx([99.5, 100.0])
    none = new._replace(lost=torch.ones_like(gone))
    assert compare(none, none, 0.02).verdict == "cannot tell"
    assert lowest_mean_returns([none]) == [-float("inf")]
