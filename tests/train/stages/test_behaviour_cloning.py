"""When a cloned policy counts as having learnt something."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import torch

from robo_rl.train.evaluation.evaluate import EvalResult, Measure
from robo_rl.train.stages.behaviour_cloning import learnt_gate

RETURNS = torch.tensor([10.0, 30.0, 20.0, 40.0] * 5)
UNTRAINED: Any = SimpleNamespace(act=None)


def measured(returns: torch.Tensor, measure: Measure, successes: int = 0) -> EvalResult:
    won = torch.arange(len(returns)) < successes
    return EvalResult(won, returns, torch.ones_like(won, dtype=torch.int64), "hash", measure)


def context(untrained: EvalResult | None = None) -> Any:
    def evaluate(act: Any, label: str) -> EvalResult:
        assert label == "untrained"
        assert untrained is not None, "evaluated for nothing"
        return untrained

    return cast(Any, SimpleNamespace(evaluate=evaluate))


def test_one_success_is_enough():
    failed = learnt_gate(context(), measured(RETURNS, "success"), UNTRAINED)
    assert not failed.passed
    assert failed.answer == "fail"
    assert "its rate may be up to 16.1%): raise its steps" in failed.detail
    gate = learnt_gate(context(), measured(RETURNS, "success", successes=1), UNTRAINED)
    assert gate.passed
    assert gate.detail == "1 of 20 episodes succeeded; at least one must"


def test_a_return_must_be_higher_than_before():
    before = context(measured(RETURNS, "return"))
    assert learnt_gate(before, measured(RETURNS + 5.0, "return"), UNTRAINED).passed
    same = learnt_gate(before, measured(RETURNS.clone(), "return", successes=20), UNTRAINED)
    assert (same.passed, same.answer) == (False, "cannot tell")
    assert "was trained, cannot tell: difference +0.0% [-16.1%, +16.1%] of the mean" in same.detail
    noisy = RETURNS + 60.0 * torch.randn(20, generator=torch.Generator().manual_seed(0)) + 1.0
    assert not learnt_gate(before, measured(noisy, "return"), UNTRAINED).passed
