"""KL to the cloned policy against hand-worked numbers; it pulls back."""

from __future__ import annotations

import math

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.algo.off_policy.reference_kl import ReferenceKl, ReferenceKlConfig
from robo_rl.core.errors import ConfigError

OBS = make_obs(8)


def anchored(family, shift, **fields):
    """A policy whose last layer has been shifted since it was anchored."""
    policy = make_policy(family, 4, **fields)
    policy.freeze_reference()
    with torch.no_grad():
        policy.net.out.bias += shift
    return policy


def test_a_shifted_mean_by_hand(generator):
    """Σ (0.05)²/(2·0.1²) over 2 executed actions of 2 joints: 0.5 nats, both ways."""
    sampler = {"name": "gaussian", "std_min": 0.05, "std_max": 0.2}  # σ = 0.1 in the middle
    policy = anchored("gaussian", 0.05, sampler=sampler)
    kl = ReferenceKl(ReferenceKlConfig(forward_kl=1.0, reverse_kl=2.0), policy, generator)
    total, found = kl.penalty(policy, OBS)
    assert float(found["forward_kl"]) == pytest.approx(0.5)
    assert float(found["reverse_kl"]) == pytest.approx(0.5)
    assert float(total.detach()) == pytest.approx(1.5)


def test_each_direction_has_its_own_coefficient(generator):
    """σ² is 0.02 against 0.01 in 4 elements: ln √2 − ¼ each from the clone, ½ − ln √2 towards it.

    The head says ½, so that σ is three quarters of the way, in logarithms, from 0.05 to 0.2.
    """
    sampler = {"name": "gaussian", "std_min": 0.05, "std_max": 0.2}
    policy = anchored("gaussian", 0.0, sampler=sampler)
    with torch.no_grad():
        policy.noise_head.raw.fill_(math.atanh(0.5))
    kl = ReferenceKl(ReferenceKlConfig(forward_kl=1.0, reverse_kl=2.0), policy, generator)
    total, found = kl.penalty(policy, OBS)
    forward, reverse = 4 * (0.5 * math.log(2) - 0.25), 4 * (0.5 - 0.5 * math.log(2))
    assert float(found["forward_kl"]) == pytest.approx(forward)
    assert float(found["reverse_kl"]) == pytest.approx(reverse)
    assert float(total.detach()) == pytest.approx(forward + 2 * reverse)


def test_steps_of_a_chain_add_up(generator):
    """A velocity that is off by 0.2 moves each of 2 trained steps of 4 by 0.05."""
    sampler = {"name": "flow_noise", "std_min": 0.05, "std_max": 0.2}
    policy = anchored("flow_noise", 0.2, sampler=sampler, finetune_steps=2, prediction_type="vel")
    _, found = ReferenceKl(ReferenceKlConfig(reverse_kl=1.0), policy, generator).penalty(
        policy, OBS
    )
    assert float(found["reverse_kl"]) == pytest.approx(2 * 0.5)


def test_it_pulls_back(generator):
    policy = anchored("flow_noise", 0.2)
    kl = ReferenceKl(ReferenceKlConfig(reverse_kl=1.0), policy, generator)
    optim = torch.optim.SGD(policy.net.parameters(), lr=1e-3)
    values = []
    for _ in range(20):
        total, _ = kl.penalty(policy, OBS)
        values.append(float(total.detach()))
        optim.zero_grad()
        total.backward()
        optim.step()
    assert values[-1] < 0.5 * values[0]


def test_without_noise_there_is_nothing_to_hold_on_to(generator):
    policy = make_policy("flow_sde", 4, sampler={"name": "flow_ode"})
    with pytest.raises(ConfigError, match="noise"):
        ReferenceKl(ReferenceKlConfig(forward_kl=1.0), policy, generator)
