"""GRPO-Guard's normalisation: a log-ratio of mean 0 whose spread does not know the step's noise."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robo_rl.algo.encoded_obs import EncodedObs
from robo_rl.algo.ppo.batch.actor_batch import ActorBatch
from robo_rl.algo.ppo.ratio_norm import guard_log_ratio
from robo_rl.algo.ppo.ratio_units import Units
from robo_rl.policy.kernels.gaussian import GaussianKernel


def log_ratios(gap: Tensor, stds: list[float], draws: int, generator) -> tuple[Tensor, Tensor]:
    """Raw and normalised log-ratios (draws, steps) of means that differ by gap (H, A)."""
    rows, steps = draws * len(stds), len(stds)
    mean = torch.zeros(rows, *gap.shape, dtype=torch.float64)
    std = torch.tensor(stds, dtype=torch.float64).repeat(draws)[:, None, None]
    old, new = GaussianKernel(mean, std), GaussianKernel(mean + gap, std)
    x = old.sample(generator)
    raw = (new.log_prob(x) - old.log_prob(x)).sum(dim=(1, 2)).view(draws, steps)
    executed = torch.ones(draws, gap.shape[0], 1, dtype=torch.bool)
    data = ActorBatch(EncodedObs({}), mean, raw, raw[:, 0], executed)
    units = Units(torch.arange(draws), torch.arange(steps).expand(draws, -1))
    return raw, guard_log_ratio(raw, old, new, data, units)


def test_one_draw_by_hand():
    """Means 0 and 0.1, σ = 0.5, x = 0.3: ln r = (0.3² − 0.2²)/(2·0.25) = 0.1, b = 0.1²/0.5."""
    shape = torch.zeros(1, 1, 1, dtype=torch.float64)
    old, new = GaussianKernel(shape, shape + 0.5), GaussianKernel(shape + 0.1, shape + 0.5)
    raw = (new.log_prob(shape + 0.3) - old.log_prob(shape + 0.3)).view(1, 1)
    data = ActorBatch(EncodedObs({}), shape, raw, raw, torch.ones(1, 1, 1, dtype=torch.bool))
    units = Units(torch.tensor([0]), torch.tensor([[0]]))
    assert float(raw) == pytest.approx(0.1)
    assert float(guard_log_ratio(raw, old, new, data, units)) == pytest.approx((0.1 + 0.02) * 0.5)


def test_its_mean_is_zero_and_its_spread_is_the_same_at_every_step(generator):
    """Raw: mean −Δ²/2σ², spread Δ/σ. Normalised: mean 0, spread Δ."""
    stds, gap = [0.05, 0.2, 0.8], torch.tensor([[0.1]], dtype=torch.float64)
    raw, normalised = log_ratios(gap, stds, 100_000, generator)
    assert raw.mean(0).tolist() == pytest.approx([-2.0, -0.125, -1 / 128], abs=0.02)
    assert raw.std(0).tolist() == pytest.approx([2.0, 0.5, 0.125], rel=0.02)
    assert normalised.mean(0).tolist() == pytest.approx([0.0] * 3, abs=1e-3)
    assert normalised.std(0).tolist() == pytest.approx([0.1] * 3, rel=0.02)


def test_in_many_dimensions_the_sums_are_taken_not_the_means(generator):
    """The spread is ‖Δ‖ over all elements, here √(4·0.1²)."""
    gap = torch.full((2, 2), 0.1, dtype=torch.float64)
    _, normalised = log_ratios(gap, [0.1, 0.5], 100_000, generator)
    assert normalised.mean(0).tolist() == pytest.approx([0.0] * 2, abs=2e-3)
    assert normalised.std(0).tolist() == pytest.approx([0.2] * 2, rel=0.02)


def test_only_executed_actions_count():
    shape = torch.zeros(1, 2, 1, dtype=torch.float64)
    old, new = GaussianKernel(shape, shape + 0.5), GaussianKernel(shape + 0.1, shape + 0.5)
    executed = torch.tensor([True, False]).view(1, 2, 1)
    data = ActorBatch(EncodedObs({}), shape, shape, shape, executed)
    units = Units(torch.tensor([0]), torch.tensor([[0]]))
    zero = torch.zeros(1, 1, dtype=torch.float64)
    assert float(guard_log_ratio(zero, old, new, data, units)) == pytest.approx(0.02 * 0.5)


def test_learnt_noise_leaves_the_mean_at_zero(generator):
    """b is the closed-form KL, which also holds where σ itself has changed."""
    shape = torch.zeros(200_000, 1, 1, dtype=torch.float64)
    old, new = GaussianKernel(shape, shape + 0.5), GaussianKernel(shape + 0.2, shape + 0.7)
    x = old.sample(generator)
    raw = (new.log_prob(x) - old.log_prob(x)).sum(dim=(1, 2))[:, None]
    executed = torch.ones(len(shape), 1, 1, dtype=torch.bool)
    data = ActorBatch(EncodedObs({}), shape, raw, raw[:, 0], executed)
    units = Units(torch.arange(len(shape)), torch.zeros(len(shape), 1, dtype=torch.int64))
    assert float(guard_log_ratio(raw, old, new, data, units).mean()) == pytest.approx(0.0, abs=2e-3)
    assert float(raw.mean()) < -0.05
