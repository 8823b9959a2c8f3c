"""Climbing a value that is known: optimum, limits, the steps of a chain that gradients reach."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_control import control_policy
from small_policies import make_obs, make_policy

from robo_rl.algo.off_policy.actor import out_of_range
from robo_rl.algo.off_policy.sac import Sac, SoftActor, entropy
from robo_rl.algo.off_policy.td3 import DeterministicActor, Td3
from robo_rl.core.errors import ConfigError
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy

OBS = {"x": torch.linspace(-1.0, 1.0, 64)[:, None, None]}
ACTORS = {"sac": (SoftActor, Sac), "td3": (DeterministicActor, Td3)}


def actor_of(name: str, policy: DenoisingPolicy, **fields: Any) -> Any:
    cls, algo = ACTORS[name]
    return cls(algo.Config.model_validate(fields), policy, torch.Generator().manual_seed(0))


def evaluated(policy: DenoisingPolicy) -> torch.Tensor:
    with torch.no_grad():
        return policy.act(OBS, torch.Generator().manual_seed(0))[:, 0, 0]


def test_what_draws_noise_where_it_is_judged_is_not_climbed():
    with pytest.raises(ConfigError, match="eval_eta 0"):
        actor_of("td3", make_policy("ddpm", 4, eval_eta=1.0))


def test_targets_are_of_the_average_smoothed_within_bounds():
    """The averaged policy's action, with noise of ±0.05 at most where its std would be 10."""
    policy = control_policy()
    actor = actor_of("td3", policy, smoothing_std=10.0, smoothing_clip=0.05)
    before = evaluated(policy)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 1.0
    act, cost = actor.next_action(OBS)
    gap = (act[:, 0, 0] - before).abs()
    torch.testing.assert_close(gap, torch.full_like(gap, 0.05), rtol=0.0, atol=0.02)
    assert float(gap.max()) <= 0.05 + 1e-6
    assert not bool(cost.any())
    assert float((evaluated(policy) - before).abs().min()) > 0.1


def climbed(steps: int, **fields: Any) -> tuple[DenoisingPolicy, float]:
    """A Gaussian policy on the value −2·(a − 0.3)², and the std that it came to draw with."""
    policy = control_policy(sampler={"name": "gaussian", "std_min": 0.01, "std_max": 0.3})
    actor = actor_of("sac", policy, lr=5e-3, **fields)
    seen = [
        actor.update(OBS, lambda _, act: -2.0 * (act[:, 0, 0] - 0.3).square()) for _ in range(steps)
    ]
    entropy = sum(float(each["entropy"]) for each in seen[-100:]) / 100
    return policy, math.exp(entropy - 1.4189385)


def test_the_soft_optimum_by_hand():
    """At temperature α it is N(0.3, α/4): with α = 0.04 the std is 0.1."""
    policy, std = climbed(300, temperature=0.04, temperature_lr=0.0)
    assert evaluated(policy).sub(0.3).abs().max() < 0.06
    assert std == pytest.approx(0.1, rel=0.1)


def test_the_temperature_finds_the_width_that_is_wanted():
    _, std = climbed(300, target_std=0.03, temperature=0.01, temperature_lr=1e-2)
    assert std == pytest.approx(0.03, rel=0.15)


@pytest.mark.parametrize("name", list(ACTORS))
def test_what_is_out_of_range_comes_back(name):
    """Beyond the limits a value that clips says nothing; at the limit it says to go on."""
    policy = control_policy(sampler={"name": "gaussian", "std_min": 0.05, "std_max": 0.3})
    with torch.no_grad():
        policy.net.out.bias.fill_(3.0)  # pyright: ignore
    assert evaluated(policy).min() > 2.0
    actor = actor_of(name, policy, lr=1e-2)
    for _ in range(200):
        actor.update(OBS, lambda _, act: act[:, 0, 0].clamp(-1.0, 1.0))
    assert evaluated(policy).max() < 1.4
    assert evaluated(policy).min() > 0.8


def test_the_limits_of_relative_actions_are_those_of_the_env():
    """A target at a limit costs nothing, and one beyond it by 0.5 costs 0.25, at every state."""
    policy, obs = make_policy("flow_noise", 2, relative_to="goal"), make_obs(8)
    actor = actor_of("sac", policy)
    for target, cost in ((1.0, 0.0), (1.5, 0.25)):
        act = torch.zeros(8, policy.horizon, 2).double()
        act[:, 0, 0] = target
        found = actor.penalties(obs, policy.from_env(obs, act))[1]["out_of_range"]
        assert float(found) == pytest.approx(cost, abs=1e-6)


def test_out_of_range_by_hand():
    act = torch.tensor([[[0.5, 1.5], [-3.0, 0.0]]])
    low, high = torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0])
    assert out_of_range(act, low, high).tolist() == [0.25 + 4.0]
    assert out_of_range(act, None, high).tolist() == [0.25]
    assert out_of_range(act, None, None).tolist() == [0.0]


@pytest.mark.parametrize("name", list(ACTORS))
@pytest.mark.parametrize("trained", [1, 2])
def test_only_the_last_steps_move(name, trained):
    policy = make_policy("flow_noise", 4, finetune_steps=trained).float()
    obs = {key: value.float() for key, value in make_obs(16).items()}
    actor = actor_of(name, policy, lr=1e-2)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        before = policy.sample(obs, generator.manual_seed(3)).x
        actor_before = [x.clone() for x in policy.reference_net.parameters()]  # pyright: ignore
    for _ in range(3):
        actor.update(obs, lambda _, act: act.sum(dim=(1, 2)))
    with torch.no_grad():
        after = policy.sample(obs, generator.manual_seed(3)).x
    frozen = 4 - trained
    assert torch.equal(before[:, : frozen + 1], after[:, : frozen + 1])
    assert not torch.equal(before[:, frozen + 1], after[:, frozen + 1])
    now = policy.reference_net.parameters()  # pyright: ignore
    assert all(torch.equal(x, y) for x, y in zip(now, actor_before, strict=True))


def test_the_gradient_is_that_of_the_last_step_alone():
    """With K' = 1 it is ∂Q/∂x[K] times the last kernel's, x[K−1] taken as given."""
    policy = make_policy("flow_noise", 4, finetune_steps=1)
    obs, generator = make_obs(8), torch.Generator()
    actor = actor_of("sac", policy, temperature=1e-30, range_penalty=0.0, lr=1e-9, grad_clip=1e9)
    weight = torch.randn(3, 2, dtype=torch.float64)
    seed = actor.generator.get_state()
    actor.update(obs, lambda _, act: (act * weight).sum(dim=(1, 2)))
    found = policy.net.out.weight.grad.clone()  # pyright: ignore
    actor.generator.set_state(seed)
    with torch.no_grad():
        chain = policy.sample(obs, actor.generator)
    kernel = policy.kernel(policy.encode(obs), torch.full((8,), 3), chain.x[:, 3])
    act = kernel.mean + kernel.std * chain.noise[:, 3]
    policy.zero_grad()
    (-(act * weight).sum(dim=(1, 2)).mean()).backward()
    del generator
    torch.testing.assert_close(found, policy.net.out.weight.grad)  # pyright: ignore


def test_entropy_counts_executed_actions_of_trained_steps():
    """Each of them has ½·ln(2πe) + ln σ; with one offset a chunk there is one for each joint."""
    one = 1.4189385 + math.log(0.1)
    policy = make_policy("flow_noise", 4, finetune_steps=2)  # 2 of 3 actions of 2 joints
    assert entropy(policy, std=0.1) == pytest.approx(2 * 2 * 2 * one, abs=1e-5)
    offset = {"name": "flow_noise", "chunk_correlation": 1.0}
    policy = make_policy("flow_noise", 4, finetune_steps=2, sampler=offset)
    assert entropy(policy, std=0.1) == pytest.approx(2 * 2 * one, abs=1e-5)
    assert entropy(make_policy("gaussian", 1), std=0.1) == pytest.approx(2 * 2 * one, abs=1e-5)


@pytest.mark.parametrize("sampler", ["flow_sde", "ddpm"])
def test_noise_that_is_not_learnt_is_none_for_sac(sampler):
    with pytest.raises(ConfigError, match="learns its noise"):
        actor_of("sac", make_policy(sampler, 4))


def test_noise_that_cannot_be_reached_is_refused():
    schedule = {"start": 0.3, "end": 0.08}
    sampler = {"name": "gaussian", "std_min": 0.02, "std_max": schedule}
    assert actor_of("sac", control_policy(sampler=sampler), target_std=0.05)
    with pytest.raises(ConfigError, match="target_std"):
        actor_of("sac", control_policy(sampler=sampler), target_std=0.1)


@pytest.mark.parametrize("bound", [0.03, 0.07, 0.1, 0.15])
def test_a_bound_of_the_noise_is_out_of_reach(bound: float):
    for limits in ((bound, 4 * bound), (bound / 4, bound)):
        sampler = {"name": "gaussian", "std_min": limits[0], "std_max": limits[1]}
        with pytest.raises(ConfigError, match="out of reach"):
            actor_of("sac", control_policy(sampler=sampler), target_std=bound)
        assert actor_of("sac", control_policy(sampler=sampler), target_std=0.99 * limits[1])


def test_the_target_lies_between_the_bounds_in_their_own_unit(monkeypatch: pytest.MonkeyPatch):
    """By default it is their geometric mean; with control steps of 0.05 all stds are 0.05 times."""
    sampler = {"name": "gaussian", "std_min": 0.1, "std_max": 0.4, "std_unit": "step"}
    found = []
    for step in (1.0, 0.05):
        steps = torch.full((2,), step, dtype=torch.float64)
        monkeypatch.setattr(Normalizer, "step_size", lambda self, name, steps=steps: steps)
        policy = make_policy("gaussian", 1, sampler=sampler)
        targets = [
            actor_of("sac", policy, **fields).temperature.target
            for fields in ({}, {"target_std": 0.2}, {"target_std": 0.3})
        ]
        assert targets[0] == pytest.approx(targets[1])
        numbers = policy.exec_horizon * policy.act_spec.size
        assert targets[2] - targets[1] == pytest.approx(numbers * math.log(1.5))
        found.append((targets[1], numbers))
    (whole, numbers), (small, _) = found
    assert small - whole == pytest.approx(numbers * math.log(0.05))


def test_a_target_between_annealed_bounds_stays_where_it_began():
    sampler = {"name": "gaussian", "std_min": 0.02, "std_max": {"start": 0.3, "end": 0.1}}
    policy = control_policy(sampler=sampler)
    begun = actor_of("sac", policy).temperature.target
    policy.set_progress(0.5)
    assert actor_of("sac", policy).temperature.target == begun
    assert policy.progress == 0.5
