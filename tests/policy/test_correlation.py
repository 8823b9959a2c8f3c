"""Noise over the decisions of an episode: smooth in time, and scored as it was drawn."""

from __future__ import annotations

import pytest
import torch
from small_policies import SAMPLERS, make_obs, make_policy

from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.chain import Chain
from robo_rl.policy.correlation import zero_previous_noise

ROWS, DECISIONS = 16, 4
SMOOTH = {"correlation": {"start": 0.5, "noise": 0.8}}
ANNEALED = {
    "gaussian": {"std_max": {"start": 0.3, "end": 0.1}},
    "ddpm": {"std_min": {"start": 0.2, "end": 0.05}},
    "ddim": {"eta": {"start": 1.0, "end": 0.5}, "std_min": {"start": 0.2, "end": 0.05}},
    "flow_sde": {"noise_level": {"start": 0.7, "end": 0.2}, "std_min": 0.0067, "std_max": 0.3},
    "flow_cps": {"noise_level": {"start": 0.7, "end": 0.2}, "std_max": {"start": 0.4, "end": 0.1}},
    "flow_noise": {
        "std_max": {"start": 0.24, "end": 0.198, "hold": 0.35},
        "chunk_correlation": 0.5,
    },
    "offset": {"std_max": {"start": 0.24, "end": 0.198, "hold": 0.35}, "chunk_correlation": 1.0},
}


def annealed(sampler: str, num_steps: int = 4, **fields: object) -> DenoisingPolicy:
    """A policy with everything on, part of the way through training."""
    name = "flow_noise" if sampler == "offset" else sampler
    settings = SAMPLERS[name] | ANNEALED[sampler]
    policy = make_policy(name, num_steps, sampler=settings, **SMOOTH, **fields)
    policy.set_progress(0.6)
    return policy


@torch.no_grad()
def episode(
    policy: DenoisingPolicy, seed: int, rows: int = ROWS, *, one_step: bool = False
) -> list[Chain]:
    """Decisions on new observations; half of the rows begin a new episode before the third."""
    generator = torch.Generator().manual_seed(seed)
    past = zero_previous_noise(rows, policy.num_steps, policy.horizon, policy.act_spec.size)
    chains = []
    for t in range(DECISIONS):
        chain = policy.sample(make_obs(rows, t), generator, single_step=one_step, past=past)
        going_on = (torch.arange(rows) >= rows // 2) | torch.tensor(t != 1)
        past = chain.as_previous(going_on)
        chains.append(chain)
    return chains


@pytest.mark.parametrize("num_steps", [1, 4, 10])
@pytest.mark.parametrize("sampler", ANNEALED)
def test_replayed_log_prob_equals_the_rollouts_to_the_bit(sampler, num_steps):
    policy = annealed(sampler, num_steps)
    chains = episode(policy, 0)
    for t, chain in enumerate(chains):
        going_on = torch.full((ROWS,), t > 0) & ((torch.arange(ROWS) >= ROWS // 2) | (t != 2))
        for step in policy.trainable_steps.nonzero().flatten().tolist():
            k = torch.full((ROWS,), step)
            kernel = policy.kernel(policy.encode(make_obs(ROWS, t)), k, chain.x[:, step])
            if t:
                x = chains[t - 1].x
                law = policy.kernel(policy.encode(make_obs(ROWS, t - 1)), k, x[:, step])
                kernel = policy.correlate_noise(kernel, law.noise(x[:, step + 1]), going_on)
            again = kernel.log_prob(chain.x[:, step + 1])
            assert torch.equal(again, chain.log_prob[:, step])


@pytest.mark.parametrize("sampler", ["flow_sde", "flow_noise", "offset", "ddim"])
def test_noise_follows_within_episodes_keeps_unit_variance_and_begins_anew(sampler):
    chains = episode(annealed(sampler), 0, rows=2000)
    noise = torch.stack([chain.noise for chain in chains])  # (T, B, K, H, A)
    assert abs(float(noise.square().mean()) - 1.0) < 0.02
    start = torch.stack([chain.x[:, 0] for chain in chains])
    for z, beta in ((noise, 0.8), (start, 0.5)):
        goes_on, begins = z[:, 1000:], z[1:3, :1000]
        assert abs(float((goes_on[1:] * goes_on[:-1]).mean()) - beta) < 0.03
        assert abs(float((goes_on[2:] * goes_on[:-2]).mean()) - beta**2) < 0.03
        assert abs(float((begins[0] * begins[1]).mean())) < 0.03


def test_the_noise_of_hybrid_chains_follows_from_k_star_to_k_star():
    chains = episode(annealed("flow_noise"), 0, rows=2000, one_step=True)
    noise = torch.stack([chain.noise[torch.arange(2000), chain.k_star] for chain in chains])
    goes_on = noise[:, 1000:]
    assert abs(float((goes_on[1:] * goes_on[:-1]).mean()) - 0.8) < 0.03
    assert abs(float(noise.square().mean()) - 1.0) < 0.02


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_where_nothing_came_before_the_draws_are_those_of_uncorrelated_noise(sampler):
    chains = []
    for fields in ({}, SMOOTH):
        policy = make_policy(sampler, 4, **fields)
        past = zero_previous_noise(ROWS, policy.num_steps, 3, 2) if fields else None
        chains.append(policy.sample(make_obs(ROWS), torch.Generator().manual_seed(1), past=past))
    assert torch.equal(chains[0].x, chains[1].x)
    assert torch.equal(chains[0].log_prob, chains[1].log_prob)


def test_the_correlation_itself_may_be_annealed():
    fields = {"correlation": {"noise": {"start": 0.8, "end": 0.0, "shape": "linear"}}}
    policy = make_policy("flow_noise", 4, **fields)
    assert policy.correlation.noise == 0.8
    policy.set_progress(0.5)
    assert policy.correlation.noise == pytest.approx(0.4)
    policy.set_progress(1.0)
    assert not policy.correlation.enabled
