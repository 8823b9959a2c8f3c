"""Advantages against brute force, with every way in which an episode can end."""

from __future__ import annotations

import pytest
import torch

from robo_rl.algo.returns import ReturnScale, gae

LAM = 0.9


def brute_force(rew, value, next_value, terminated, ended, valid, discount, lam):
    """Σ over the rest of the episode of Π(discount·λ)·δ, written as a double loop."""
    steps, envs = rew.shape
    adv = torch.zeros_like(rew)
    for env in range(envs):
        for t in range(steps):
            weight = 1.0
            for s in range(t, steps):
                if not valid[s, env]:
                    break
                bootstrap = 0.0 if terminated[s, env] else next_value[s, env]
                delta = rew[s, env] + discount[s, env] * bootstrap - value[s, env]
                adv[t, env] += weight * delta
                if ended[s, env]:
                    break
                weight *= discount[s, env] * lam
    return adv


def test_gae_equals_brute_force(generator):
    shape = (13, 40)
    rew, value, next_value = (torch.randn(shape, generator=generator) for _ in range(3))
    terminated, truncated = (torch.rand(shape, generator=generator) < 0.1 for _ in range(2))
    valid = torch.rand(shape, generator=generator) > 0.1
    # chunks of up to four env steps, of which an episode's end cuts some off
    num_exec = torch.randint(1, 5, shape, generator=generator)
    discount = 0.97**num_exec
    adv, returns = gae(
        rew,
        value,
        next_value,
        terminated=terminated,
        truncated=truncated,
        valid=valid,
        discount=discount,
        lam=LAM,
    )
    want = brute_force(
        rew, value, next_value, terminated, terminated | truncated, valid, discount, LAM
    )
    torch.testing.assert_close(adv, want)
    torch.testing.assert_close(returns, want + value)


@pytest.mark.parametrize(("flag", "want"), [("terminated", 1.0), ("truncated", 1.0 + 0.81 * 5.0)])
def test_termination_does_not_bootstrap_and_truncation_does(flag, want):
    """One decision of two env steps, reward 1, V = 0 before and 5 after, γ = 0.9."""
    flags = {"terminated": torch.tensor([[False]]), "truncated": torch.tensor([[False]])}
    flags[flag] = torch.tensor([[True]])
    adv, _ = gae(
        torch.ones(1, 1),
        torch.zeros(1, 1),
        torch.full((1, 1), 5.0),
        **flags,
        valid=torch.tensor([[True]]),
        discount=torch.tensor([[0.81]]),
        lam=LAM,
    )
    assert float(adv) == pytest.approx(want)


def test_return_scale_is_the_std_of_the_discounted_return(generator):
    rew = torch.randn(50, 8, generator=generator)
    ended = torch.rand(50, 8, generator=generator) < 0.1
    discount = torch.full((50, 8), 0.9)
    scale = ReturnScale(8)
    for block in range(0, 50, 10):
        part = slice(block, block + 10)
        scale.update(rew[part], discount[part], ended[part])
    running, seen = torch.zeros(8), []
    for t in range(50):
        running = running * 0.9 + rew[t]
        seen.append(running)
        running = torch.where(ended[t], 0.0, running)
    assert scale.std == pytest.approx(float(torch.stack(seen).std(correction=0)), rel=1e-5)


def test_return_scale_of_constant_rewards_is_one():
    scale = ReturnScale(2)
    scale.update(torch.zeros(5, 2), torch.ones(5, 2), torch.zeros(5, 2, dtype=torch.bool))
    assert scale.std == 1.0
