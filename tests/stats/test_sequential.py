"""The sequential test errs as rarely as it claims, whatever is looked at on the way, and sees."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robo_rl.stats.sequential import PairVerdict, compare_sequentially

LEVEL = 0.1
RUNS = 400
HIGHEST = LEVEL + 3.1 * math.sqrt(LEVEL * (1 - LEVEL) / RUNS)  # a correct program: 999 in 1000


def verdict(scores, **how):
    return compare_sequentially(scores, **how)[0, 1].verdict


def false_positives(draw, equal, **how):
    """Share of experiments in which any pair of equal methods is called different."""
    rng = np.random.default_rng(0)
    wrong = 0
    for run in range(RUNS):
        found = compare_sequentially(draw(rng), alpha=LEVEL, relabellings=200, seed=run, **how)
        wrong += any(found[pair].verdict is PairVerdict.DIFFERENT for pair in equal(found))
    return wrong / RUNS


def test_one_group_is_the_permutation_test_by_hand():
    # Each seed's two scores are swapped or not; of the 8 ways 2 differ by 3 + 3 + 2: p = 1/4.
    scores, how = (
        [[4, 5, 8], [1, 2, 6]],
        {"seeds_per_group": 3, "num_groups": 1, "relabellings": 20_000},
    )
    assert verdict(scores, alpha=0.265, **how) is PairVerdict.DIFFERENT
    assert verdict(scores, alpha=0.235, **how) is PairVerdict.CANNOT_TELL


def test_labels_are_exchanged_within_tasks():
    # One seed: each task's two scores are swapped or not; 2 of 4 ways differ by 1 + 9 = 10.
    scores = [[[1.0, 9.0]], [[0.0, 0.0]]]
    how = {"seeds_per_group": 1, "num_groups": 1, "relabellings": 20_000}
    assert verdict(scores, alpha=0.515, **how) is PairVerdict.DIFFERENT
    assert verdict(scores, alpha=0.485, **how) is PairVerdict.CANNOT_TELL


@pytest.mark.parametrize("methods", [2, 5])
def test_equal_methods_are_seldom_called_different(methods):
    def draw(rng):
        return rng.normal(size=(methods, 9))

    assert (
        0.02
        < false_positives(draw, lambda found: found, seeds_per_group=3, num_groups=3)
        <= HIGHEST
    )


def test_nor_are_success_rates_with_ties_over_several_tasks():
    def draw(rng):
        return rng.binomial(20, 0.9, size=(3, 6, 2)) / 20

    assert false_positives(draw, lambda found: found, seeds_per_group=2, num_groups=3) <= HIGHEST


@pytest.mark.parametrize("shared", [-0.9, 0.9])
def test_nor_are_methods_whose_runs_of_a_seed_have_something_in_common(shared):
    """Relabelled among all scores, such pairs were called different in 23 % and 0 %."""

    def draw(rng):
        one, other = rng.normal(size=(2, 9))
        return np.stack([one, shared * one + math.sqrt(1 - shared**2) * other])

    assert (
        0.02
        < false_positives(draw, lambda found: found, seeds_per_group=3, num_groups=3)
        <= HIGHEST
    )


def test_what_runs_of_a_seed_have_in_common_hides_no_difference():
    rng = np.random.default_rng(0)
    clones = 3.0 * rng.normal(size=(50, 1, 9))
    experiments = clones + rng.normal(size=(50, 2, 9)) + np.array([0.0, 2.0])[:, None]
    found = [
        verdict(scores, seeds_per_group=3, num_groups=3, relabellings=500) for scores in experiments
    ]
    assert found.count(PairVerdict.DIFFERENT) >= 45


def test_nor_beside_methods_that_differ():
    """Strong control: taking true differences out one by one leaves the level as it is."""

    def draw(rng):
        return rng.normal(size=(4, 10)) + np.array([0.0, 0.0, 4.0, 4.0])[:, None]

    assert (
        false_positives(draw, lambda _: [(0, 1), (2, 3)], seeds_per_group=5, num_groups=2)
        <= HIGHEST
    )


def test_looking_again_without_spending_the_level_would_be_noticed():
    rng = np.random.default_rng(0)
    wrong = 0
    for run in range(RUNS):
        scores = rng.normal(size=(2, 20))
        peeks = [
            verdict(
                scores[:, :s],
                seeds_per_group=s,
                num_groups=1,
                alpha=LEVEL,
                relabellings=200,
                seed=run,
            )
            for s in (5, 10, 15, 20)
        ]
        wrong += PairVerdict.DIFFERENT in peeks
    assert wrong / RUNS > HIGHEST


def test_a_clear_difference_is_seen_and_early():
    rng = np.random.default_rng(0)
    experiments = rng.normal(size=(100, 2, 20)) + np.array([0.0, 2.0])[:, None]
    found = [
        compare_sequentially(scores, seeds_per_group=5, num_groups=4, relabellings=500)[0, 1]
        for scores in experiments
    ]
    assert sum(decision.verdict is PairVerdict.DIFFERENT for decision in found) >= 97
    assert np.mean([decision.seeds for decision in found]) < 12  # five cannot tell: 2 of 2⁵
    assert np.mean([decision.difference for decision in found]) == pytest.approx(-2.0, abs=0.3)


def test_more_seeds_are_asked_for_until_all_groups_are_there():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(2, 14))
    seen = [
        compare_sequentially(scores[:, :seeds], seeds_per_group=4, num_groups=3)[0, 1]
        for seeds in (0, 3, 4, 11, 12, 14)
    ]
    more, neither = PairVerdict.MORE_SEEDS, PairVerdict.CANNOT_TELL
    assert [decision.verdict for decision in seen] == [more, more, more, more, neither, neither]
    assert [decision.seeds for decision in seen] == [0, 0, 4, 8, 12, 12]
    assert math.isnan(seen[0].difference)


def test_further_seeds_never_change_what_was_decided():
    rng = np.random.default_rng(0)
    changed = 0
    for _ in range(30):
        scores = rng.normal(size=(3, 12)) + np.array([0.0, 1.5, 3.0])[:, None]
        early = compare_sequentially(
            scores[:, :8], seeds_per_group=4, num_groups=3, relabellings=500
        )
        late = compare_sequentially(scores, seeds_per_group=4, num_groups=3, relabellings=500)
        decided = [p for p, d in early.items() if d.verdict is PairVerdict.DIFFERENT]
        assert all(late[pair] == early[pair] for pair in decided)
        changed += len(decided) < sum(d.verdict is PairVerdict.DIFFERENT for d in late.values())
    assert changed > 3


def test_only_the_pairs_asked_for_are_compared():
    scores = np.random.default_rng(0).normal(size=(4, 5))
    assert list(
        compare_sequentially(scores, [(2, 0), (2, 3)], seeds_per_group=5, num_groups=1)
    ) == [
        (2, 0),
        (2, 3),
    ]


def test_scores_that_never_vary_are_never_told_apart():
    assert verdict(np.ones((2, 6)), seeds_per_group=3, num_groups=2) is PairVerdict.CANNOT_TELL


@pytest.mark.parametrize(
    ("scores", "how"),
    [
        ([1.0, 2.0], {"seeds_per_group": 1, "num_groups": 1}),
        ([[1.0, math.nan], [1.0, 2.0]], {"seeds_per_group": 1, "num_groups": 1}),
        ([[1.0], [2.0]], {"seeds_per_group": 0, "num_groups": 1}),
        ([[1.0], [2.0]], {"seeds_per_group": 1, "num_groups": 1, "alpha": 1.0}),
    ],
)
def test_what_makes_no_test_is_refused(scores, how):
    with pytest.raises(ValueError, match=r"scores|no test"):
        compare_sequentially(scores, **how)
