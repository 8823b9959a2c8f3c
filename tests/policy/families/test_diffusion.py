"""DDIM and DDPM against diffusers' schedulers, and against each other."""

from __future__ import annotations

import pytest
import torch
from small_policies import make_obs, make_policy

from robo_rl.core.errors import ConfigError
from robo_rl.policy.chain import Prediction
from robo_rl.policy.families.diffusion import Ddim, Ddpm
from robo_rl.train.checkpoint.policies import check_distillable

diffusers = pytest.importorskip("diffusers", reason="the oracle is diffusers' scheduler")


def walk(sampler, out):
    """Means along a chain that always takes the mean, with a fixed prediction per step."""
    x, means = torch.full((1, 1, 1), 0.7, dtype=torch.float64), []
    for step in range(len(sampler.times)):
        x = sampler.kernel(torch.tensor([step]), x, Prediction(out[step] * torch.ones_like(x))).mean
        means.append(float(x))
    return means


@pytest.mark.parametrize("num_steps", [5, 10, 20])
def test_ddim_without_noise_is_diffusers_ddim(num_steps):
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler

    sampler = Ddim(Ddim.Config(eta=0.0, train_steps=100), num_steps)
    oracle = DDIMScheduler(
        100, beta_schedule="squaredcos_cap_v2", clip_sample=True, clip_sample_range=1.0
    )
    oracle.set_timesteps(num_steps)
    out = torch.linspace(-1.0, 1.0, num_steps).tolist()
    x, want = torch.full((1, 1, 1), 0.7, dtype=torch.float64), []
    for step, time in enumerate(oracle.timesteps.tolist()):
        prediction = torch.full_like(x, out[step])
        x = oracle.step(
            prediction, time, x, eta=0.0, use_clipped_model_output=True, return_dict=False
        )[0]
        want.append(float(x))
    assert walk(sampler, out) == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("num_steps", [1, 2, 3, 51, 60])
def test_steps_that_begin_amid_the_schedule_are_refused(num_steps):
    """The first x is noise alone, and a network would take a part of it for the action."""
    with pytest.raises(ConfigError, match=r"policy\.num_steps: .*begin at time"):
        Ddim(Ddim.Config(train_steps=100), num_steps)


@pytest.mark.parametrize("num_steps", [4, 5, 10, 20, 50, 100])
def test_steps_that_begin_near_its_noisy_end_are_taken(num_steps):
    assert float(Ddim(Ddim.Config(train_steps=100), num_steps).alpha_bar[0]) < 0.15


@pytest.mark.parametrize("num_steps", [1, 2, 3, 7, 51])
def test_a_schedule_of_the_chains_length_begins_with_noise(num_steps):
    assert float(Ddpm(Ddpm.Config(), num_steps).alpha_bar[0]) < 0.01


def test_ddim_with_all_the_noise_over_all_steps_is_the_ddpm_posterior():
    ddim = Ddim(Ddim.Config(eta=1.0, train_steps=20, std_min=0.0), 20)
    ddpm = Ddpm(Ddpm.Config(std_min=0.0), 20)
    x = torch.randn(20, 2, 3, dtype=torch.float64)
    out, k = torch.randn_like(x), torch.arange(20)
    ours, theirs = (s.kernel(k, x, Prediction(out)) for s in (ddim, ddpm))
    torch.testing.assert_close(ours.mean, theirs.mean, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours.std, theirs.std)


def test_last_step_is_floored_or_not_stochastic():
    assert Ddim(Ddim.Config(std_min=0.0), 5).stochastic.tolist() == [True] * 4 + [False]
    floored = Ddim(Ddim.Config(std_min=0.1), 5)
    assert floored.stochastic.all()
    assert float(floored.std.min()) == pytest.approx(0.1)


def test_noise_schedule_increases_to_one_along_the_chain():
    alpha_bar = Ddim(Ddim.Config(), 10).alpha_bar
    assert bool((alpha_bar.diff() > 0).all())
    assert float(alpha_bar[-1]) == 1.0


def test_evaluation_with_noise_is_ddpm_without_a_floor():
    floorless = {"name": "ddpm", "std_min": 0.0}
    own = make_policy("ddpm", 10, sampler=floorless)
    loud = make_policy("ddpm", 10, eval_eta=1.0)
    obs = make_obs(16)
    expected = own.to_env(obs, own.sample(obs, torch.Generator().manual_seed(1)).act)
    found = loud.act(obs, torch.Generator().manual_seed(1))
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-9)
    assert own.eval_is_deterministic
    assert not loud.eval_is_deterministic


def test_what_draws_noise_on_its_way_is_not_distilled_or_exported():
    check_distillable(make_policy("ddpm", 10).cfg, "export")
    with pytest.raises(ConfigError, match=r"policy\.eval_eta: export needs"):
        check_distillable(make_policy("ddpm", 10, eval_eta=0.5).cfg, "export")
