"""Draw and score come from one kernel: replayed log-probabilities equal the rollout's."""

from __future__ import annotations

import math

import pytest
import torch
from small_policies import SAMPLERS, make_obs, make_policy

from robo_rl.policy.chain import Prediction, mean_chain
from robo_rl.policy.families.flow import FlowOde
from robo_rl.policy.kernels.gaussian import GaussianKernel

ROWS = 16


@pytest.mark.parametrize("num_steps", [1, 4, 5, 10, 20])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_replayed_log_prob_equals_rollout_log_prob_in_any_order(sampler, num_steps, generator):
    policy, obs = make_policy(sampler, num_steps), make_obs(ROWS)
    with torch.no_grad():
        chain = policy.sample(obs, generator)
    steps = policy.trainable_steps.nonzero().flatten()
    assert len(steps) or (sampler, num_steps) == ("flow_cps", 1)  # its last step draws nothing
    row, k = (pair.flatten() for pair in torch.meshgrid(torch.arange(ROWS), steps, indexing="ij"))
    order = torch.randperm(len(row), generator=generator)
    row, k = row[order], k[order]
    again = policy.log_prob(
        {name: o[row] for name, o in obs.items()}, k, chain.x[row, k], chain.x[row, k + 1]
    )
    torch.testing.assert_close(again, chain.log_prob[row, k], rtol=0, atol=1e-10)
    assert chain.act.shape == (ROWS, 3, 2)


@pytest.mark.parametrize("sampler", ["ddim", "flow_sde", "flow_cps", "flow_noise"])
def test_one_step_chains_are_random_at_k_star_alone(sampler, generator):
    policy, obs = make_policy(sampler, 5), make_obs(200)
    with torch.no_grad():
        chain = policy.sample(obs, generator, single_step=True)
    assert chain.k_star is not None
    scored = chain.log_prob.abs().sum(dim=(2, 3)) > 0
    assert torch.equal(scored.sum(1), torch.ones(200, dtype=torch.int64))
    assert torch.equal(scored.int().argmax(1), chain.k_star)
    drawn = set(chain.k_star.tolist())
    assert drawn == set(policy.trainable_steps.nonzero().flatten().tolist())


@pytest.mark.parametrize(("finetune_steps", "limit"), [(0, 18.467), (2, 10.828)])
def test_the_random_step_is_any_of_those_that_are_trained_with_equal_probability(
    finetune_steps, limit, generator
):
    """χ² of the counts against equal ones, below its 99.9 % quantile at 4 and at 1 degrees."""
    policy, rows = make_policy("flow_sde", 5, finetune_steps=finetune_steps), 4000
    policy.freeze_reference()
    with torch.no_grad():
        k_star = policy.sample(make_obs(rows), generator, single_step=True).k_star
    assert k_star is not None
    trained = policy.trainable_steps
    counts = torch.bincount(k_star, minlength=5)
    assert not counts[~trained].any()
    mean = rows / int(trained.sum())
    assert float(((counts[trained] - mean) ** 2 / mean).sum()) < limit


def test_the_mean_chain_adds_up_what_is_predicted_and_a_guide_may_replace_it():
    """An Euler step moves by vel/4, so four steps at vel = 2k move by (0 + 2 + 4 + 6)/4."""
    start = torch.tensor([[[1.0, -2.0]]])
    sampler, asked = FlowOde(FlowOde.Config(), 4), []

    def predict(k, x):
        asked.append(k)
        return Prediction(torch.full_like(x, 2.0 * k))

    def doubled(_sampler, _k, x, network):
        return Prediction(2.0 * network(x).out)

    torch.testing.assert_close(mean_chain(sampler, predict, start), start + 3.0)
    assert asked == [0, 1, 2, 3]
    torch.testing.assert_close(mean_chain(sampler, predict, start, doubled), start + 6.0)


def test_kernel_log_prob_is_the_normal_density():
    kernel = GaussianKernel(torch.tensor([[[1.0, -2.0]]]), torch.tensor([[[0.5, 2.0]]]))
    got = kernel.log_prob(torch.tensor([[[1.5, 0.0]]]))
    # −½·1² − ln 0.5 − ln √2π and −½·1² − ln 2 − ln √2π
    half_log_2pi = 0.5 * math.log(2 * math.pi)
    want = torch.tensor([[[-0.5 + math.log(2) - half_log_2pi, -0.5 - math.log(2) - half_log_2pi]]])
    torch.testing.assert_close(got, want)


def test_kernel_kl_equals_monte_carlo(generator):
    ours = GaussianKernel(torch.tensor([[[0.3]]]), torch.tensor([[[0.5]]]))
    theirs = GaussianKernel(torch.tensor([[[-0.1]]]), torch.tensor([[[0.8]]]))
    wide = GaussianKernel(ours.mean.expand(400_000, 1, 1), ours.std)
    x = wide.sample(generator)
    estimate = (wide.log_prob(x) - theirs.log_prob(x)).mean()
    assert abs(float(ours.kl(theirs)) - float(estimate)) < 0.005


def test_deterministic_steps_have_no_density_and_no_gradient(generator):
    mean = torch.zeros(2, 1, 1, requires_grad=True)
    kernel = GaussianKernel(mean, torch.zeros(1))
    score = kernel.log_prob(kernel.sample(generator) + 1.0)
    assert float(score.detach().abs().sum()) == 0.0
    score.sum().backward()
    assert mean.grad is not None
    assert float(mean.grad.abs().sum()) == 0.0


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_correlated_density_is_the_multivariate_normal_of_every_prefix(rho, generator):
    horizon, std = 4, torch.tensor([0.5, 1.0, 2.0, 0.7]).view(1, -1, 1).double()
    kernel = GaussianKernel(torch.randn(1, horizon, 1, generator=generator).double(), std, rho)
    x = kernel.sample(generator)
    lags = torch.arange(horizon)
    cov = rho ** (lags[:, None] - lags).abs().double() * std.flatten() * std.view(-1, 1)
    score = kernel.log_prob(x).flatten()
    for n in range(1, horizon + 1):
        law = torch.distributions.MultivariateNormal(kernel.mean.flatten()[:n], cov[:n, :n])
        assert float(score[:n].sum()) == pytest.approx(float(law.log_prob(x.flatten()[:n])))


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_entropy_is_the_multivariate_normals_of_every_prefix(rho):
    horizon, std = 4, torch.tensor([0.5, 1.0, 2.0, 0.7]).double()
    lags = torch.arange(horizon)
    cov = rho ** (lags[:, None] - lags).abs().double() * std * std[:, None]
    entropy = GaussianKernel(torch.zeros(1, horizon, 1).double(), std.view(1, -1, 1), rho).entropy()
    for n in range(1, horizon + 1):
        law = torch.distributions.MultivariateNormal(torch.zeros(n).double(), cov[:n, :n])
        assert float(entropy[0, :n].sum()) == pytest.approx(float(law.entropy()))


def test_entropy_of_an_offset_is_counted_once_and_of_certainty_not_at_all():
    # ½·ln(2πe·0.3²) = 1.418939 − 1.203973
    offset = GaussianKernel(torch.zeros(1, 4, 1), torch.full((1, 1, 1), 0.3), 1.0).entropy()
    assert float(offset.sum()) == pytest.approx(0.214966, abs=1e-5)
    assert float(GaussianKernel(torch.zeros(1, 4, 1), torch.zeros(1)).entropy().abs().sum()) == 0.0


def test_correlated_noise_keeps_its_std_and_has_its_correlation(generator):
    kernel = GaussianKernel(torch.zeros(200_000, 3, 1), torch.full((1, 1, 1), 0.3), 0.8)
    cov = torch.cov(kernel.sample(generator)[..., 0].T)
    want = 0.09 * torch.tensor([[1.0, 0.8, 0.64], [0.8, 1.0, 0.8], [0.64, 0.8, 1.0]])
    assert float((cov - want).abs().max()) < 0.002


def test_correlated_kl_is_the_multivariate_normals(generator):
    horizon, rho = 3, 0.7
    lags = torch.arange(horizon)
    corr = rho ** (lags[:, None] - lags).abs().double()
    laws, kernels = [], []
    for _ in range(2):
        mean = torch.randn(horizon, generator=generator).double()
        std = 0.5 + torch.rand(horizon, generator=generator).double()
        laws.append(torch.distributions.MultivariateNormal(mean, corr * std * std[:, None]))
        kernels.append(GaussianKernel(mean.view(1, -1, 1), std.view(1, -1, 1), rho))
    want = torch.distributions.kl_divergence(*laws)
    assert float(kernels[0].kl(kernels[1]).sum()) == pytest.approx(float(want))


def test_with_full_correlation_the_chunk_moves_as_one_and_its_offset_is_scored(generator):
    kernel = GaussianKernel(
        torch.randn(5, 4, 2, generator=generator), torch.full((1, 1, 2), 0.3), 1.0
    )
    x = kernel.sample(generator)
    offset = (x - kernel.mean)[:, 0]
    torch.testing.assert_close(x, kernel.mean + offset[:, None])
    law = torch.distributions.Normal(0.0, 0.3)
    torch.testing.assert_close(kernel.log_prob(x).sum(1), law.log_prob(offset))
    moved = GaussianKernel(kernel.mean + 0.1, kernel.std, 1.0)
    assert float(kernel.kl(moved)[0].sum()) == pytest.approx(2 * 0.5 * (0.1 / 0.3) ** 2, rel=1e-5)


def test_the_score_of_an_offset_has_mean_zero_also_where_the_std_varies(generator):
    """E[∂ log p / ∂ log std] = 0, which holds for the density of what was drawn and no other."""
    log_std = torch.log(torch.tensor([0.1, 0.2, 0.4]).double()).view(1, 3, 1).requires_grad_()
    kernel = GaussianKernel(torch.zeros(400_000, 3, 1).double(), log_std.exp(), 1.0)
    score = kernel.log_prob(kernel.sample(generator).detach()).sum(dim=(1, 2)).mean()
    (gradient,) = torch.autograd.grad(score, log_std)
    assert float(gradient.abs().max()) < 0.005
