"""Verdicts of kept gates are those of the runs, and of other values of ``difference_error``."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

VERDICTS = import_module("gate_verdicts")
KEPT = VERDICTS.Results(VERDICTS.RESULTS, "offline_to_online").read()


def test_the_kept_runs_accepted_what_their_own_error_accepts():
    found = [verdict for record in KEPT.values() for verdict in VERDICTS.verdicts(record)]
    assert len(found) > 10
    assert all(verdict.is_better(verdict.error) == verdict.accepted for verdict in found)


def test_a_larger_error_accepts_less_and_misses_more():
    gates = [
        VERDICTS.Verdict(low, 0.0, distance, gain, 0.05)
        for low, distance, gain in ((0.3, 1.0, 0.2), (0.08, 1.0, -0.1), (0.4, 1.5, -0.5))
    ]
    rows = [VERDICTS.count(gates, error) for error in (0.0, 0.1, 0.5)]
    assert [row["better"] for row in rows] == [2, 1, 0]  # the third is outside the support
    assert [row["lower"] for row in rows] == [1, 0, 0]
    assert [row["surely"] for row in rows] == [1, 0, 0]
    assert [row["missed"] for row in rows] == [0, 0, 1]
