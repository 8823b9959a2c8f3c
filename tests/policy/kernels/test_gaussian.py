"""The noise of a draw, what follows it, and gradients through draws."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from robo_rl.policy.kernels.gaussian import GaussianKernel

BETA = 0.6
STD = torch.tensor([0.5, 1.0, 2.0]).view(1, -1, 1).double()


def pair(rho: float, rows: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise of two decisions, the second following the first under another mean and std."""
    first = GaussianKernel(torch.randn(rows, 3, 1, generator=generator).double(), STD, rho)
    second = GaussianKernel(torch.ones(rows, 3, 1).double(), 0.3 * STD.flip(1), rho)
    noise = first.noise(first.sample(generator))
    beta = torch.full((rows, 1, 1), BETA).double()
    return noise, second.noise(second.given_previous_noise(noise, beta).sample(generator))


@pytest.mark.parametrize("rho", [0.0, 0.7, 1.0])
def test_noise_that_follows_keeps_its_law_and_has_its_correlation(rho, generator):
    before, after = (n[..., 0] for n in pair(rho, 200_000, generator))
    lags = torch.arange(3)
    along = rho ** (lags[:, None] - lags).abs().double()
    cov = torch.cov(torch.cat([before, after], dim=1).T)
    want = torch.cat([torch.cat([along, BETA * along]), torch.cat([BETA * along, along])], dim=1)
    assert float((cov - want).abs().max()) < 0.015


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_the_law_that_follows_is_the_conditional_of_a_joint_normal(rho, generator):
    mean, noise = torch.zeros(1, 3, 1).double(), torch.randn(1, 3, 1, generator=generator).double()
    kernel = GaussianKernel(mean, STD, rho).given_previous_noise(
        noise, torch.full((1, 1, 1), BETA).double()
    )
    x = kernel.sample(generator)
    lags = torch.arange(3)
    cov = rho ** (lags[:, None] - lags).abs().double() * STD.flatten() * STD.view(-1, 1)
    # x | z ~ N(C·β·R⁻¹z …) = N(σβz, (1−β²)·C) where cov(x, z) = β·C·diag(1/σ)
    law = torch.distributions.MultivariateNormal(
        (STD * BETA * noise).flatten(), (1.0 - BETA**2) * cov
    )
    assert float(kernel.log_prob(x).sum()) == pytest.approx(float(law.log_prob(x.flatten())))


@pytest.mark.parametrize("rho", [0.0, 0.7, 1.0])
def test_following_with_no_correlation_is_the_kernel_itself_to_the_bit(rho, generator):
    kernel = GaussianKernel(
        torch.randn(4, 3, 2, generator=generator), torch.full((1, 1, 2), 0.3), rho
    )
    same = kernel.given_previous_noise(
        torch.randn(4, 3, 2, generator=generator), torch.zeros(4, 1, 1)
    )
    draws = [each.sample(torch.Generator().manual_seed(1)) for each in (kernel, same)]
    assert torch.equal(*draws)
    assert torch.equal(kernel.log_prob(draws[0]), same.log_prob(draws[0]))


def test_a_deterministic_step_has_no_noise_and_stays_deterministic(generator):
    kernel = GaussianKernel(torch.randn(2, 3, 1, generator=generator), torch.zeros(1, 1, 1))
    assert not kernel.noise(kernel.mean + 1.0).any()
    following = kernel.given_previous_noise(torch.ones(2, 3, 1), torch.full((2, 1, 1), BETA))
    assert torch.equal(following.sample(generator), kernel.mean)


@pytest.mark.parametrize("rho", [0.0, 0.7, 1.0])
def test_gradients_reach_mean_and_std_through_a_draw(rho, generator):
    """x = mean + std·noise: ∂x/∂mean = 1, ∂x/∂(log std) = x − mean."""
    mean = torch.randn(4, 3, 1, generator=generator).double().requires_grad_()
    log_std = torch.full((), -1.0).double().requires_grad_()
    kernel = GaussianKernel(mean, log_std.exp().expand(1, 3, 1), rho)
    x = kernel.sample(generator)
    to_mean, to_std = torch.autograd.grad(x.sum(), (mean, log_std))
    torch.testing.assert_close(to_mean, torch.ones_like(mean))
    torch.testing.assert_close(to_std, (x - mean).sum())


@pytest.mark.parametrize("executed", [1, 2, None])
def test_an_offset_is_scored_by_the_actions_that_are_executed(executed, generator):
    mean = torch.randn(4, 3, 2, generator=generator).double().requires_grad_()
    kernel = GaussianKernel(mean, torch.full((1, 1, 1), 0.3).double(), 1.0, executed)
    x = kernel.sample(generator).detach()
    whole = GaussianKernel(mean, kernel.std, 1.0)
    # What was drawn moved all of them alike, so that no part of the chunk knows another offset.
    torch.testing.assert_close(kernel.log_prob(x), whole.log_prob(x))
    torch.testing.assert_close(kernel.noise(x), whole.noise(x))
    (grad,) = torch.autograd.grad(kernel.log_prob(x).sum(), mean)
    reach = executed or 3
    assert bool((grad[:, :reach] != 0.0).all())
    assert not grad[:, reach:].any()
    torch.testing.assert_close(grad[:, 0], (x - mean)[:, 0] / 0.09 / reach)


def test_how_far_offsets_are_apart_is_told_of_what_is_executed():
    first = GaussianKernel(torch.zeros(1, 3, 1), torch.ones(1, 1, 1), 1.0, 2)
    apart = replace(first, mean=torch.tensor([1.0, 3.0, 50.0]).view(1, 3, 1))
    assert float(first.kl(apart).sum()) == pytest.approx(0.5 * 2.0**2)
    assert first.kl_shape_term(apart)[0, :2, 0].tolist() == [0.5, 0.5]
