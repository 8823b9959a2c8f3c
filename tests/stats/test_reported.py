"""Means in reports have the interval of their samples, and one sample has none."""

from __future__ import annotations

import pytest

from robo_rl.stats.across_runs import student_interval
from robo_rl.stats.reported import reported_mean


def test_a_mean_has_students_interval():
    found = reported_mean([10.0, 12.0], "reward")
    assert (found["value"], found["n"], found["unit"]) == (11.0, 2, "reward")
    assert (found["low"], found["high"]) == tuple(student_interval([10.0, 12.0]))
    assert found["high"] == pytest.approx(11.0 + 12.7062, abs=1e-3)


def test_one_sample_has_no_interval():
    found = reported_mean([5.0], "reward")
    assert (found["value"], found["low"], found["high"], found["n"]) == (5.0, None, None, 1)
