"""Tokens of a step against counts, and divergences against sums over bins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, kl_divergence

from robo_rl.policy.kernels.categorical import CategoricalKernel, bin_of, bin_values, soft_bins

BINS, SHAPE = 5, (3, 2)
PLACE = torch.tensor([1, 4])


def kernel(rows: int, seed: int = 0) -> CategoricalKernel:
    logits = torch.randn(1, 2, BINS, generator=torch.Generator().manual_seed(seed)).double()
    x = torch.zeros(rows, *SHAPE).double()
    return CategoricalKernel.of(logits.expand(rows, -1, -1), PLACE.expand(rows, -1), x)


def drawn(elements: Tensor) -> Tensor:
    return elements.flatten(1)[:, PLACE]


def test_tokens_are_the_middles_of_equal_parts_of_the_range():
    values = bin_values(4, torch.zeros(()).double())
    torch.testing.assert_close(values, torch.tensor([-0.75, -0.25, 0.25, 0.75]).double())
    assert bin_of(values, 4).tolist() == [0, 1, 2, 3]
    assert bin_of(torch.tensor([-7.0, -1.0, 0.999, 1.0, 7.0]), 4).tolist() == [0, 0, 3, 3, 3]


def test_samples_have_the_odds_that_are_scored(generator):
    rows = 200_000
    law = kernel(rows)
    x = law.sample(generator)
    tokens = bin_of(drawn(x), BINS)
    odds = law.logits[0].softmax(dim=-1)
    for place in range(2):
        found = torch.bincount(tokens[:, place], minlength=BINS) / rows
        torch.testing.assert_close(found.double(), odds[place], rtol=0, atol=0.006)
    said = drawn(law.log_prob(x))[:, 0]
    torch.testing.assert_close(said.exp(), odds[0][tokens[:, 0]])


def test_elements_of_other_steps_stay_and_have_no_density(generator):
    law = kernel(4)
    others = torch.ones(6, dtype=torch.bool)
    others[PLACE] = False
    x = law.sample(generator)
    numbers = x, law.log_prob(x), law.entropy(), law.kl(kernel(4, 1)), law.has_density().double()
    for each in numbers:
        assert not bool(each.flatten(1)[:, others].any())
        assert bool(each.flatten(1)[:, PLACE].any())


def test_entropy_and_kl_are_those_of_the_bins():
    one, other = kernel(1), kernel(1, seed=1)
    ours, theirs = (Categorical(logits=each.logits) for each in (one, other))
    torch.testing.assert_close(drawn(one.entropy()), ours.entropy())
    torch.testing.assert_close(drawn(one.kl(other)), kl_divergence(ours, theirs))


def test_a_greedy_kernel_takes_the_most_likely_token_and_scores_nothing(generator):
    law = kernel(3)
    greedy = CategoricalKernel.greedy(law.logits, law.place, torch.zeros(3, *SHAPE).double())
    assert torch.equal(greedy.sample(generator), greedy.mean)
    torch.testing.assert_close(bin_of(drawn(greedy.mean), BINS), law.logits.argmax(dim=-1))
    assert not bool(greedy.log_prob(greedy.mean).any() or greedy.has_density().any())
    assert not bool(law.kl(greedy).any())


def test_rows_of_two_kernels_come_from_either(generator):
    law, quiet = kernel(4), kernel(4, seed=1)
    quiet = CategoricalKernel.greedy(quiet.logits, quiet.place, torch.zeros(4, *SHAPE).double())
    first = torch.tensor([True, False, True, False])
    both = law.where(first, quiet)
    x = both.sample(generator)
    torch.testing.assert_close(x[~first], quiet.mean[~first])
    torch.testing.assert_close(both.log_prob(x)[first], law.log_prob(x)[first])
    assert not bool(both.log_prob(x)[~first].any())


@pytest.mark.parametrize("split", [1, 3])
def test_joined_kernels_are_the_rows_they_were(split):
    law = kernel(5).where(torch.arange(5) < 2, kernel(5, seed=1))
    rows = torch.arange(5)
    parts = [law.select(rows[:split]), law.select(rows[split:])]
    again = parts[0].join(parts[1:]).select(rows.flip(0))
    x = torch.linspace(-1, 1, 30).double().view(5, *SHAPE)
    torch.testing.assert_close(again.log_prob(x), law.select(rows.flip(0)).log_prob(x))


@pytest.mark.parametrize("width", [0.3, 0.75, 3.0])
def test_labels_are_odds_around_the_number(width):
    """Their mean is the number where the Gaussian is within the range; they sum to 1 anywhere."""
    x = torch.tensor([-0.4, 0.013, 0.5, -1.0, 1.7]).double()
    odds, values = soft_bins(x, 64, width), bin_values(64, x)
    torch.testing.assert_close(odds.sum(dim=-1), torch.ones(5).double())
    torch.testing.assert_close((odds * values).sum(dim=-1)[:3], x[:3], rtol=0, atol=2e-2 * width)
    inside = x[:3]
    spread = (odds[:3] * (values - inside[:, None]) ** 2).sum(dim=-1).sqrt() * 32.0
    if width >= 0.75:
        torch.testing.assert_close(
            spread, torch.full((3,), (width**2 + 1 / 12) ** 0.5).double(), rtol=0.02, atol=0
        )
