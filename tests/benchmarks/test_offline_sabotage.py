"""The table of critics that overrate has a row for every answer of the gate."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from robo_rl.ope.policy_comparison import OpeAnswer, PolicyComparison
from robo_rl.stats.intervals import Interval
from robo_rl.train.ope.ope_evaluator import OpeResult

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

SABOTAGE = import_module("offline_sabotage")
RATE: dict[str, Any] = {"value": 0.5, "low": 0.4, "high": 0.6}


@pytest.mark.parametrize("distance", [1.0, 5.0])
def test_a_row_has_the_answer_of_the_gate_of_now(distance: float):
    verdict = PolicyComparison(0.29, Interval(0.01, 0.58), 0.0, OpeAnswer.BETTER)
    result = OpeResult({"fqe": verdict}, distance, 1.35)
    cell = {
        "answer": f"{result}; the new policy goes on",
        "accepted": distance < 1.35,
        "ood_distance_after": distance,
        **dict.fromkeys(("success_before", "success_ungated"), RATE),
    }
    rates = "50.0 % [40.0, 60.0] | 50.0 % [40.0, 60.0]"
    end = "better | the new policy" if distance < 1.35 else "cannot tell | the clone"
    row = f"| 0 | {rates} | +0.290 [+0.010, +0.580] | {distance:.2f} | {end} |"
    assert SABOTAGE.line(0, cell) == row
