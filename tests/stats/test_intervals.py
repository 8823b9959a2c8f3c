"""Intervals cover what they claim to, tests err as rarely as they claim to; published numbers.

Coverage is not simulated but summed over all outcomes, so these tests have no luck in them.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats as scipy_stats

from robo_rl.stats.intervals import Interval, clopper_pearson, wilson

RATES = np.linspace(0.01, 0.99, 99)


def coverage(interval, n, p):
    """Probability that interval(successes, n) holds p."""
    pmf = scipy_stats.binom.pmf(np.arange(n + 1), n, p)
    holds = [low <= p <= high for low, high in (interval(k, n) for k in range(n + 1))]
    return float(pmf[holds].sum())


def test_wilson_equals_hand_worked_and_scipys_numbers():
    low, high = wilson(8, 10)  # (0.8 + 0.19207 ± 1.95996·√(0.016 + 0.0096037)) / 1.38415
    assert (low, high) == pytest.approx((0.490162, 0.943318), abs=1e-6)
    for k, n, confidence in [(0, 7, 0.95), (7, 7, 0.95), (190, 200, 0.9), (1, 3, 0.99)]:
        theirs = scipy_stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
        assert wilson(k, n, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_clopper_pearson_equals_scipys():
    for k, n, confidence in [(0, 7, 0.95), (7, 7, 0.95), (190, 200, 0.9), (8, 10, 0.99)]:
        theirs = scipy_stats.binomtest(k, n).proportion_ci(confidence, method="exact")
        ours = clopper_pearson(k, n, confidence)
        assert ours == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize("n", [10, 50, 200])
def test_wilson_covers_on_average_what_it_says_and_never_far_less(n):
    covers = [coverage(wilson, n, p) for p in RATES]
    assert np.mean(covers) == pytest.approx(0.95, abs=0.006)
    assert min(covers) > 0.83


@pytest.mark.parametrize("n", [10, 50])
def test_clopper_pearson_never_covers_less_than_it_says(n):
    assert min(coverage(clopper_pearson, n, p) for p in RATES) >= 0.95


@pytest.mark.parametrize("interval", [wilson, clopper_pearson])
def test_no_episodes_say_nothing_and_impossible_counts_are_refused(interval):
    assert interval(0, 0) == Interval(0.0, 1.0)
    for k, n in [(-1, 5), (6, 5)]:
        with pytest.raises(ValueError, match="impossible"):
            interval(k, n)


def test_the_module_imports_without_scipy():
    script = "import sys; sys.modules['scipy'] = None;"
    script += "import robo_rl.stats.intervals as s; s.wilson(1, 2)"
    subprocess.run([sys.executable, "-c", script], check=True)
