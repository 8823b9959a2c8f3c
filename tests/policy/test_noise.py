"""Bounds of the std: every sampler holds them, and stays the sampler that it is within them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_policies import SAMPLERS, make_obs, make_policy

from robo_rl.policy.chain import Prediction
from robo_rl.policy.families.diffusion import Ddim, Ddpm
from robo_rl.policy.families.flow import FlowCps, FlowNoise, FlowSde
from robo_rl.policy.families.gaussian import Gaussian
from robo_rl.policy.noise import LearntStd, StdBounds, clamp_std, learnt_std

HARDWARE = {"std_min": 0.0067, "std_max": 0.1}  # RL-100's
ROWS = 16


def stds(policy) -> torch.Tensor:
    """Std of every step, (K, B, H, A), at random states."""
    generator = torch.Generator().manual_seed(0)
    embedding = policy.encode(make_obs(ROWS))
    found = []
    for step in range(policy.num_steps):
        x = torch.randn(ROWS, 3, 2, generator=generator, dtype=torch.float64)
        kernel = policy.kernel(embedding, torch.full((ROWS,), step), x)
        found.append(kernel.std.expand_as(x))
    return torch.stack(found)


@pytest.mark.parametrize("num_steps", [1, 4, 5, 10, 20])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_random_step_of_every_sampler_is_within_the_bounds(sampler, num_steps):
    free = make_policy(sampler, num_steps)
    policy = make_policy(sampler, num_steps, sampler=SAMPLERS[sampler] | HARDWARE)
    with torch.no_grad():
        for parameter in policy.parameters():  # noise heads say something
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        found = stds(policy)
    random = policy.sampler.stochastic
    assert torch.equal(random, free.sampler.stochastic)
    assert (found[~random] == 0).all()
    if bool(random.any()):
        assert float(found[random].min()) >= 0.0067 * (1 - 1e-12)
        assert float(found[random].max()) <= 0.1 * (1 + 1e-12)


@pytest.mark.parametrize("sampler", ["flow_sde", "flow_cps", "ddim", "ddpm"])
def test_bounds_that_are_wide_enough_change_nothing(sampler):
    wide = {"std_max": 10.0} if sampler.startswith("flow") else {}  # a cap makes DDPM DDIM
    wide |= {"std_min": 1e-6} if sampler.startswith("flow") else {}
    chains = []
    for bounds in ({}, wide):
        policy = make_policy(sampler, 5, sampler=SAMPLERS[sampler] | bounds)
        chains.append(policy.sample(make_obs(ROWS), torch.Generator().manual_seed(1)).x)
    assert torch.equal(*chains)


def test_a_bound_holds_what_is_random_and_leaves_what_is_not():
    std = torch.tensor([0.0, 0.001, 0.05, 3.0])
    got = clamp_std(std, StdBounds(std_min=0.01, std_max=0.1))
    torch.testing.assert_close(got, torch.tensor([0.0, 0.01, 0.05, 0.1]))
    in_cm = clamp_std(100 * std, StdBounds(std_min=0.01, std_max=0.1), unit=0.01)
    torch.testing.assert_close(in_cm, 100 * got)


def test_a_bounded_sde_step_is_that_of_its_own_sigma():
    """Drift and noise use one σ: a cap of 0.1 at K = 4 is the SDE of σ = 0.1/√dt = 0.2."""
    sampler = FlowSde(FlowSde.Config(noise_level=0.5, std_max=0.1), 4)
    x, k = torch.full((4, 1, 1), 0.6, dtype=torch.float64), torch.arange(4)
    vel = torch.full_like(x, 0.4)
    kernel = sampler.kernel(k, x, Prediction(vel))
    t = torch.tensor([0.0, 0.25, 0.5, 0.75], dtype=torch.float64).view(4, 1, 1)
    want = x + 0.25 * (vel + 0.5 * 0.2**2 * (t * vel - x) / (1 - t))
    torch.testing.assert_close(kernel.mean, want)
    torch.testing.assert_close(kernel.std, torch.full_like(x, 0.1))


@pytest.mark.parametrize("bounds", [{"std_max": 0.15}, {"std_min": 0.15}])
def test_a_bounded_cps_step_still_replaces_noise_by_as_much(bounds, generator):
    """On pure noise (no action in it) the next noise level is exactly 1 − t', as unbounded."""
    sampler = FlowCps(FlowCps.Config(noise_level=0.1, **bounds), 5)
    x = torch.randn(200_000, 1, 1, generator=generator, dtype=torch.float64)
    k = torch.zeros(len(x), dtype=torch.int64)
    kernel = sampler.kernel(k, x, Prediction(-x))  # velocity = act − noise with act = 0
    # level 0.1 by itself would be 0.8·sin 9° = 0.1251
    assert float(kernel.std[0]) == pytest.approx(0.15 if "std_min" in bounds else 0.1251, abs=1e-4)
    assert abs(float(kernel.sample(generator).std()) - 0.8) < 0.005


@pytest.mark.parametrize("family", [Ddim, Ddpm])
def test_a_capped_diffusion_step_is_ddims_with_a_smaller_eta(family):
    schedule: dict[str, Any] = {"train_steps": 20} if family is Ddim else {}
    capped = family(family.Config(std_min=0.0, std_max=0.2, **schedule), 20)
    free = Ddim(Ddim.Config(std_min=0.0, train_steps=20), 20)
    k = int((free.std > 0.2).nonzero()[-1])
    quieter = Ddim(Ddim.Config(eta=0.2 / float(free.std[k]), std_min=0.0, train_steps=20), 20)
    x = torch.randn(4, 2, 3, dtype=torch.float64)
    at, out = torch.full((4,), k), Prediction(0.3 * x)
    ours, theirs = (sampler.kernel(at, x, out) for sampler in (capped, quieter))
    torch.testing.assert_close(ours.mean, theirs.mean)
    torch.testing.assert_close(ours.std, theirs.std)


def test_learnt_noise_is_squashed_in_log_variance():
    """ln σ² half-way between ln 0.1² and ln 0.24² is ln(0.1·0.24); tanh 0.5493061 = ½."""
    bounds = LearntStd(std_min=0.1, std_max=0.24)
    raw = torch.tensor([0.0, math.atanh(0.5), -50.0, 50.0], dtype=torch.float64)
    # three quarters of the way: ln σ = ln 0.1 + ¾·ln 2.4 → σ = 0.1·2.4^¾ = 0.1928228
    want = torch.tensor([math.sqrt(0.024), 0.1928228, 0.1, 0.24], dtype=torch.float64)
    torch.testing.assert_close(learnt_std(raw, bounds, raw), want, rtol=0, atol=1e-7)


@pytest.mark.parametrize("family", [FlowNoise, Gaussian])
def test_a_kernel_is_on_the_device_of_its_chain_without_a_noise_head(family):
    """The device "meta" stands for a GPU; the teacher of on-policy distillation has no head."""
    x = torch.zeros(4, 2, 3, device="meta")
    found = family(family.Config(), 2).kernel(torch.zeros(4, device="meta"), x, Prediction(x))
    assert found.mean.device == found.std.device == x.device


@pytest.mark.parametrize("sampler", ["gaussian", "flow_noise"])
def test_what_is_learnt_of_the_noise_is_kept_when_the_bounds_move(sampler):
    bounds = {"std_min": 0.1, "std_max": {"start": 0.4, "end": 0.2, "shape": "linear"}}
    policy = make_policy(sampler, 4, sampler=SAMPLERS[sampler] | bounds)
    assert policy.noise_head is not None
    with torch.no_grad():
        for parameter in policy.noise_head.parameters():
            parameter += torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
        before = stds(policy)
        policy.set_progress(0.5)
        after = stds(policy)
    assert float((before - after).abs().max()) > 0.02
    # (ln σ − ln σ_min)/(ln σ_max − ln σ_min) is what was learnt
    share = [((s / 0.1).log() / math.log(top / 0.1)) for s, top in ((before, 0.4), (after, 0.3))]
    torch.testing.assert_close(*share)


def test_bounds_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match=r"std_min 0.2 is above std_max 0.1"):
        StdBounds(std_min=0.2, std_max=0.1)
