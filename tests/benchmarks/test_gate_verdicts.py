"""Verdicts of kept gates are those of the runs, and of other values of ``difference_error``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

VERDICTS = import_module("gate_verdicts")


@pytest.fixture(scope="module")
def kept() -> list[Any]:
    return VERDICTS.distinct(records())


def records() -> list[Any]:
    kept = [VERDICTS.Results(VERDICTS.RESULTS, suite).read() for suite in VERDICTS.SUITES]
    return [record for cells in kept for record in cells.values()]


def test_what_is_read_from_a_gates_sentence_decides_as_the_gate_did(kept: list[Any]):
    assert len(kept) > 90
    for verdict in kept:
        end = verdict.low - verdict.error - verdict.margin
        by_end = verdict.is_supported and end > 0.0
        assert verdict.accepted == by_end or abs(end) < 0.0005, verdict  # the end is rounded


def test_a_larger_error_accepts_less_and_misses_more():
    gates = [
        VERDICTS.Verdict(low, 0.0, supported, gain, 0.05, error=0.0, accepted=low < 0.35)
        for low, supported, gain in ((0.3, True, 0.2), (0.08, True, -0.1), (0.4, False, -0.5))
    ]
    rows = [VERDICTS.count(gates, error) for error in (0.0, 0.1, 0.5)]
    assert [row["better"] for row in rows] == [2, 1, 0]  # the third is outside the support
    assert [row["lower"] for row in rows] == [1, 0, 0]
    assert [row["significant"] for row in rows] == [1, 0, 0]
    assert [row["missed"] for row in rows] == [0, 0, 1]


def test_a_gate_that_two_suites_share_counts_once(kept: list[Any]):
    twice = [*records(), *records()]
    assert VERDICTS.distinct(twice) == kept
    other = next(each for each in twice if any(VERDICTS.verdicts(each)))
    other = other.model_copy(update={"seed": 99})
    assert len(VERDICTS.distinct([*twice, other])) > len(kept)
