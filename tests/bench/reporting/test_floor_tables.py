"""Tasks below the floor are listed with their causes, the worst first."""

from __future__ import annotations

from typing import Any

from robo_rl.bench.reporting.floor_tables import floor_tables
from robo_rl.bench.suite.suite import ReportConfig


def numbers(success: float, one_step: float) -> dict[str, Any]:
    return {"before": 0.5, "success": success, "after": success, "one_step": one_step}


SUMMARY = {
    "tasks": {
        "good": {"default": numbers(0.98, 0.97)},
        "poor": {"default": numbers(0.8, 0.8)},
        "worst": {"default": numbers(0.4, 0.38)},
        "missing": {},
    }
}


def test_the_tasks_below_the_floor_are_named_with_their_causes():
    report = ReportConfig(floor=0.85, causes={"worst": "its expert fails"})
    extremes, below = floor_tables(SUMMARY, report, ["default"])
    assert extremes.rows == [("default", "3", "72.7 %", "worst", "40.0 %", "2", "-1.0 points")]
    assert below.rows == [
        ("worst", "default", "50.0 %", "40.0 %", "38.0 %", "its expert fails"),
        ("poor", "default", "50.0 %", "80.0 %", "80.0 %", "–"),
    ]


def test_without_a_floor_there_are_no_such_tables():
    assert list(floor_tables(SUMMARY, ReportConfig(), ["default"])) == []
