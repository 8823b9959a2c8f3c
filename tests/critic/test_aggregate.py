"""Aggregation of an ensemble: by hand, and the subsets of REDQ."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from robo_rl.critic.aggregate import EnsembleAggregation, lower_bound

VALUES = torch.tensor([[1.0, 8.0], [2.0, 4.0], [6.0, 0.0]])


def aggregate(rule: str, generator: torch.Generator, **fields: object) -> torch.Tensor:
    cfg = EnsembleAggregation.Config.model_validate({"mode": rule, **fields})
    return EnsembleAggregation(cfg, len(VALUES))(VALUES, generator)


def test_by_hand(generator):
    assert aggregate("min", generator).tolist() == [1.0, 0.0]
    assert aggregate("mean", generator).tolist() == [3.0, 4.0]
    # deviations −2, −1, 3 and 4, 0, −4: variances 14/3 and 32/3
    expected = [3.0 - 0.5 * (14 / 3) ** 0.5, 4.0 - 0.5 * (32 / 3) ** 0.5]
    found = aggregate("lower_bound", generator, kappa=0.5)
    torch.testing.assert_close(found, torch.tensor(expected))


def test_a_subset_of_all_is_the_min_and_every_pair_comes_up(generator):
    assert aggregate("subset_min", generator, subset=3).tolist() == [1.0, 0.0]
    found = {tuple(aggregate("subset_min", generator, subset=2).tolist()) for _ in range(100)}
    pairs = combinations(VALUES.tolist(), 2)
    assert found == {tuple(map(min, one, other)) for one, other in pairs}


def test_the_lower_bound_of_two_is_their_min(generator):
    values = torch.randn(2, 50, generator=generator)
    torch.testing.assert_close(lower_bound(values, 1.0), values.amin(0))


def test_a_subset_beyond_the_ensemble_is_refused(generator):
    with pytest.raises(ValueError, match="at most 3, found 4"):
        aggregate("subset_min", generator, subset=4)


@pytest.mark.parametrize("rule", ["min", "mean", "subset_min"])
def test_shares_of_members_mix_to_what_the_rule_makes_of_their_values(rule, generator):
    values = torch.randn(5, 400, generator=generator)
    chosen = EnsembleAggregation(EnsembleAggregation.Config(mode=rule, subset=2), 5)
    state = generator.get_state()
    shares = chosen.member_weights(values, generator)
    generator.set_state(state)
    torch.testing.assert_close((shares * values).sum(0), chosen(values, generator))
    torch.testing.assert_close(shares.sum(0), torch.ones(400))
    assert shares.min() >= 0.0
