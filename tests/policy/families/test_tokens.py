"""Action tokens: a chain that draws a chunk part by part, each given those before it."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.off_policy.actor import check_reparameterized
from robo_rl.algo.policy_samples import draw_candidates
from robo_rl.config.component import component
from robo_rl.config.models import NestedError
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.policy.kernels.categorical import bin_values

STEPS = (1, 3, 6)
"""Steps of a chunk of three actions of two elements: at once, an action and a token at a time."""


@pytest.mark.parametrize("num_steps", STEPS)
def test_a_step_draws_the_next_elements_and_leaves_those_before_it(num_steps, generator):
    policy = make_policy("categorical", num_steps)
    x = policy.sample(make_obs(16), generator).x.flatten(2)
    size = 6 // num_steps
    for k in range(num_steps):
        torch.testing.assert_close(x[:, k + 1, : k * size], x[:, k, : k * size])
        assert not bool(x[:, k + 1, (k + 1) * size :].any())
    values = bin_values(64, x)
    assert float((x[:, -1, :, None] - values).abs().amin(-1).max()) < 1e-9


def test_a_token_depends_on_those_before_it_alone(generator):
    policy, obs = make_policy("categorical", 3), make_obs(1)
    embedding, k = policy.encode(obs), torch.tensor([1])
    x = torch.zeros(1, 3, 2, dtype=torch.float64)
    before, after = x.clone(), x.clone()
    before[:, 0], after[:, 1:] = 0.5, 0.5
    logits = [policy.kernel(embedding, k, each).logits for each in (x, before, after)]
    assert not torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])


def all_chunks() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """One observation, repeated, with every chunk of two bins an element."""
    values = bin_values(2, torch.zeros(()).double())
    chunks = torch.cartesian_prod(*[values] * 6).view(-1, 3, 2)
    obs = make_obs(1).items()
    return {name: each.expand(len(chunks), -1, -1) for name, each in obs}, chunks


def chunk_kernels(policy, obs, chunks):
    embedding = policy.encode(obs)
    steps = (torch.full((len(chunks),), k) for k in range(policy.num_steps))
    return [policy.kernel(embedding, k, chunks) for k in steps]


@torch.no_grad()
@pytest.mark.parametrize("num_steps", STEPS)
def test_odds_and_kl_of_chunks_are_sums_over_all_chunks(num_steps):
    """The odds of all chunks add up to 1, and the KL of the chain is that of the chunks."""
    policy = make_policy("categorical", num_steps, bins=2)
    other = make_policy("categorical", num_steps, bins=2)
    other.net.out.bias.add_(torch.linspace(-0.4, 0.4, 12))
    obs, chunks = all_chunks()
    ours, theirs = (chunk_kernels(each, obs, chunks) for each in (policy, other))
    log_p, log_q = (
        torch.stack([law.log_prob(chunks).sum(dim=(1, 2)) for law in each]).sum(0)
        for each in (ours, theirs)
    )
    torch.testing.assert_close(log_p.exp().sum(), torch.ones(()).double())
    steps = [one.kl(two).sum(dim=(1, 2)) for one, two in zip(ours, theirs, strict=True)]
    chain = (log_p.exp() * torch.stack(steps).sum(0)).sum()
    torch.testing.assert_close(chain, (log_p.exp() * (log_p - log_q)).sum())
    assert float(chain) > 1e-3


def test_cloning_learns_which_actions_go_together(generator):
    """Two chunks, each as often: their mean, and mixtures of them, are not drawn."""
    policy = make_policy("categorical", 3, bins=8, label_width=0.0).float()
    obs = {name: each.float().expand(64, -1, -1) for name, each in make_obs(1).items()}
    sign = torch.where(torch.arange(64) % 2 == 0, 1.0, -1.0)[:, None, None]
    act = sign * torch.full((64, 3, 2), 0.6)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for _ in range(400):
        optimizer.zero_grad()
        policy.loss(obs, act, generator).mean().backward()
        optimizer.step()
    drawn = policy.sample(obs, generator).act
    ends = drawn.sign()
    assert bool((drawn.abs() - 0.625).abs().max() < 1e-6)
    whole = (ends == ends[:, :1, :1]).all(dim=(1, 2)) | (ends[:, 0, 0] != ends[:, 0, 1])
    assert float(whole.float().mean()) > 0.9
    assert 8 <= int((ends[:, 0, 0] > 0).sum()) <= 56


def test_a_low_temperature_draws_what_evaluation_takes(generator):
    obs = make_obs(8)
    cold = make_policy("categorical", 3, sampler={"name": "categorical", "temperature": 1e-4})
    noise = torch.randn(8, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(cold.sample(obs, generator).act, cold.decode_normalized(obs, noise))


def test_only_steps_that_draw_executed_actions_are_trained():
    """Three actions of two elements, of which one is executed."""
    for num_steps, trained in ((1, 1), (3, 1), (6, 2)):
        policy = make_policy("categorical", num_steps, exec_horizon=1)
        expected = [k < trained for k in range(num_steps)]
        assert policy.trainable_steps.tolist() == expected


@torch.no_grad()
@pytest.mark.parametrize("sampler", ["gaussian", "categorical", "flow_noise"])
def test_candidates_at_one_observation_differ(sampler, generator):
    obs = {name: each.expand(8, -1, -1) for name, each in make_obs(1).items()}
    found = draw_candidates(make_policy(sampler, 3), obs, generator)
    assert float(found.std(dim=0).min()) > 0.0


def test_steps_that_do_not_divide_a_chunk_are_refused():
    with pytest.raises(SpecError, match="no equal parts"):
        make_policy("categorical", 4)


def test_settings_of_gaussian_noise_are_refused():
    with pytest.raises(NestedError, match="tokens have no noise"):
        component("policies").make({"name": "tokens", "correlation": {"noise": 0.5}})
    with pytest.raises(NestedError, match="expects logits"):
        component("policies").make({"name": "flow", "sampler": {"name": "categorical"}})
    with pytest.raises(ConfigError, match="critic's gradient"):
        check_reparameterized(make_policy("categorical", 3))


@torch.no_grad()
@pytest.mark.parametrize("num_steps", STEPS)
def test_another_chunk_counts_only_where_its_tokens_are_as_likely_as_the_best(num_steps):
    policy, obs = make_policy("categorical", num_steps), make_obs(8)
    best = policy.decode(obs, torch.zeros(8, 3, 2, dtype=torch.float64))
    other = policy.to_env(obs, -policy.from_env(obs, best))
    assert not torch.equal(best, other)
    torch.testing.assert_close(policy.settle_ties(obs, best, best), best)
    torch.testing.assert_close(policy.settle_ties(obs, best, other), best)
    for parameter in policy.net.parameters():
        parameter.zero_()  # all tokens are equally likely now
    torch.testing.assert_close(policy.settle_ties(obs, best, other), other)


@torch.no_grad()
@pytest.mark.parametrize("num_steps", STEPS)
def test_an_error_within_a_bin_is_no_tie(num_steps):
    policy, obs = make_policy("categorical", num_steps), make_obs(8)
    best = policy.decode(obs, torch.zeros(8, 3, 2, dtype=torch.float64))
    within = policy.to_env(obs, policy.from_env(obs, best) + 0.2 / policy.cfg.bins)
    torch.testing.assert_close(policy.settle_ties(obs, best, within), best)


def test_a_temperature_that_ends_at_zero_is_refused_before_training():
    cold = {"name": "categorical", "temperature": {"start": 1.0, "end": 0.0}}
    with pytest.raises(NestedError, match="when 100 % of training is done"):
        component("samplers").make(cold)
