"""Comparisons of two policies err as rarely as they claim to; published numbers.

Errors are not simulated but summed over all outcomes where they can be.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from scipy.optimize import minimize_scalar

from robo_rl.stats.paired_tests import (
    Comparison,
    newcombe_interval,
    paired_change,
    paired_noninferiority,
)
from robo_rl.stats.power import min_pairs


def pairs(both, only_new, only_ref, neither):
    """Paired outcomes new (n,), ref (n,) with these counts."""
    counts = (both, only_new, only_ref, neither)
    return np.repeat([1, 1, 0, 0], counts), np.repeat([1, 0, 1, 0], counts)


def test_the_hybrid_interval_equals_newcombes_published_ones():
    # Newcombe 1998, table II: method 10 for 56/70 − 48/80 and 9/10 − 3/10.
    assert newcombe_interval(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe_interval(9, 10, 3, 10) == pytest.approx((0.1705, 0.8090), abs=5e-5)


@pytest.mark.parametrize(("n", "p_ref", "margin"), [(100, 0.9, 0.1), (200, 0.95, 0.05)])
def test_the_hybrid_interval_passes_a_policy_at_the_margin_as_rarely_as_it_says(n, p_ref, margin):
    pmf_new = scipy_stats.binom.pmf(np.arange(n + 1), n, p_ref - margin)
    pmf_ref = scipy_stats.binom.pmf(np.arange(n + 1), n, p_ref)
    error = sum(
        pmf_new[a] * pmf_ref[b]
        for a, b in itertools.product(range(n + 1), range(n + 1))
        if pmf_new[a] * pmf_ref[b] > 1e-9 and newcombe_interval(a, n, b, n).low > -margin
    )
    assert 0.01 < error < 0.03


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ((198, 200, 196, 200), "non-inferior"),
        ((100, 200, 196, 200), "inferior"),
        ((18, 20, 19, 20), "cannot tell"),
    ],
)
def test_a_comparison_can_say_that_it_cannot_tell(counts, verdict):
    found = Comparison(0.0, newcombe_interval(*counts), margin=0.05)
    assert (found.verdict, found.noninferior) == (verdict, verdict == "non-inferior")


def test_the_paired_interval_equals_published_ones():
    # Fagerland, Lydersen, Laake 2014 (Bentur's and Cavo's data): Tango's asymptotic score interval.
    bentur = paired_noninferiority(*pairs(1, 1, 7, 12), margin=0.1)
    assert bentur.interval == pytest.approx((-0.517, -0.026), abs=5e-4)
    cavo = paired_noninferiority(*pairs(59, 6, 16, 80), margin=0.1)
    assert cavo.difference == pytest.approx(-10 / 161)
    assert cavo.interval == pytest.approx((-0.1240, -0.0054), abs=5e-5)


def test_the_paired_interval_has_its_closed_forms_at_the_edges():
    z2 = scipy_stats.norm.ppf(0.975) ** 2
    # All agree: −nΔ / √(nΔ(1 − Δ)) = −z, so Δ = z² / (n + z²).
    agree = paired_noninferiority(*pairs(15, 0, 0, 5), margin=0.1).interval
    assert agree == pytest.approx((-z2 / (20 + z2), z2 / (20 + z2)), abs=1e-9)
    # All differ one way: √(n(1 − Δ) / (1 + Δ)) = z, so Δ = (n − z²) / (n + z²).
    differ = paired_noninferiority(*pairs(0, 10, 0, 0), margin=0.1).interval
    assert differ == pytest.approx((-(z2 - 10) / (10 + z2), 1.0), abs=1e-9)


def test_the_paired_limits_are_where_the_score_test_with_a_searched_likelihood_rejects():
    only_new, only_ref, n = 3, 9, 40
    low, high = paired_noninferiority(*pairs(20, only_new, only_ref, 8), margin=0.1).interval
    for delta in (low, high):

        def unlikely(q, delta=delta):
            rates = np.array([q + delta, q, 1 - 2 * q - delta])
            counts = np.array([only_new, only_ref, n - only_new - only_ref])
            return -(counts * np.log(np.maximum(rates, 1e-300))).sum()

        bounds = (max(0.0, -delta), (1 - delta) / 2)
        found = minimize_scalar(unlikely, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        q = found["x"]  # pyright: ignore[reportIndexIssue]
        score = (only_new - only_ref - n * delta) / math.sqrt(n * (2 * q + delta - delta**2))
        assert abs(score) == pytest.approx(1.959964, abs=1e-4)


def test_the_paired_test_passes_a_policy_at_the_margin_as_rarely_as_it_says():
    n, margin, only_new = 60, 0.1, 0.05
    rates = [only_new, only_new + margin, 1 - 2 * only_new - margin]
    error = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            pmf = scipy_stats.multinomial.pmf([b, c, n - b - c], n, rates)
            if pmf > 1e-9:
                result = paired_noninferiority(*pairs(n - b - c, b, c, 0), margin=margin)
                error += pmf * result.noninferior
    assert 0.01 < error < 0.035


def test_pairs_must_be_pairs():
    for new, ref in [([1, 0], [1]), ([], []), ([[1]], [[1]])]:
        with pytest.raises(ValueError, match="same n"):
            paired_noninferiority(new, ref, 0.1)


def test_a_paired_change_is_a_share_of_the_references_mean():
    ref = np.array([1.0, 2.0, 3.0, 6.0])
    assert paired_change(2 * ref, ref, 0.1) == (1.0, (1.0, 1.0), 0.1)
    down = paired_change(ref - 0.3, ref, 0.2)
    assert down.difference == pytest.approx(-0.1)  # 0.3 of 3
    assert down.interval.low < -0.1 < down.interval.high
    many = paired_change(np.tile(ref - 0.3, 25), np.tile(ref, 25), 0.2)
    assert down.interval.low < many.interval.low < -0.1 < many.interval.high < 0
    # Returns that are costs: less of them is more.
    assert paired_change(-ref / 2, -ref, 0.0).difference == 0.5


def test_a_few_draws_without_any_success_of_the_reference_decide_nothing():
    ref, new = np.zeros(50), np.zeros(50)
    ref[:5], new[:45] = 1.0, 1.0
    change = paired_change(new, ref, 0.03)
    assert change.noninferior
    assert -10.0 < change.interval.low < 8.0 < change.interval.high < 1000.0


def test_a_paired_change_says_nothing_where_nothing_is_known():
    assert paired_change([5.0], [1.0], 0.1).verdict == "cannot tell"
    rng = np.random.default_rng(0)
    around_zero = rng.standard_normal(40)
    assert paired_change(around_zero + 0.5 * rng.standard_normal(40), around_zero, 0.1).verdict == (
        "cannot tell"
    )
    nothing = np.zeros(9)
    assert paired_change(nothing - 1e-3, nothing, 0.5).verdict == "inferior"
    assert paired_change(nothing + 1e-3, nothing, 0.0).noninferior
    with pytest.raises(ValueError, match="two arrays"):
        paired_change([1.0, 2.0], [1.0], 0.1)


@pytest.mark.parametrize("margin", [0.03, 0.1])
def test_returns_that_all_tie_need_as_many_pairs_as_successes_that_do(margin: float):
    """A policy that loses everything in a share of the episodes ties in the others."""
    enough = min_pairs(margin)
    for n, passes in ((2, False), (enough - 1, False), (enough, True)):
        returns = np.full(n, 1000.0)
        assert paired_change(returns, returns, margin).noninferior is passes
        assert not paired_change(returns, returns, 0.0).noninferior
    rng, passed = np.random.default_rng(0), 0
    for trial in range(300):  # a true loss of just the margin
        new = np.where(rng.random(50) < margin, 0.0, 1000.0)
        test = paired_change(new, np.full(50, 1000.0), margin, reps=200, generator=trial)
        passed += test.noninferior
    assert passed / 300 < 0.025 + 3.1 * math.sqrt(0.025 * 0.975 / 300)


def test_two_pairs_do_not_show_that_one_policy_is_better():
    """Student's interval of 10 and 12 is 11 ± 12.706; percentiles of resamples lie between them."""
    found = paired_change([110.0, 112.0], [100.0, 100.0], 0.0, reps=20_000)
    assert found.verdict == "cannot tell"
    assert found.interval.low == pytest.approx(-0.017, abs=2e-3)
    assert found.interval.high == pytest.approx(0.237, abs=2e-3)
    rng, better, trials = np.random.default_rng(0), 0, 600
    for trial in range(trials):
        new = 1000.0 + rng.standard_normal(3)
        better += paired_change(new, np.full(3, 1000.0), 0.0, reps=200, generator=trial).noninferior
    assert better / trials < 0.025 + 3.1 * math.sqrt(0.025 * 0.975 / trials)


def test_a_paired_change_errs_as_rarely_as_it_claims():
    rng, rejected, trials = np.random.default_rng(1), 0, 300
    for trial in range(trials):  # a true loss of just the margin
        ref = rng.gamma(4.0, 25.0, size=60)
        new = 0.9 * ref + 15.0 * rng.standard_normal(60)
        rejected += paired_change(new, ref, 0.1, reps=300, generator=trial).noninferior
    assert rejected / trials < 0.025 + 3 * math.sqrt(0.025 * 0.975 / trials)
    assert rejected > 0
