"""Noise that is chosen, and a policy that learns what comes of it."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from small_logged import World, demand_goes_on, demand_improves, make_improver
from small_policies import make_obs, make_policy

from robo_rl.algo.offline.dsrl import Dsrl
from robo_rl.algo.offline.fql import Fql
from robo_rl.core.errors import ConfigError

improver = partial(make_improver, Dsrl, actor={"hidden": (32,), "lr": 3e-3})


def test_what_pays_is_done_more_often_and_the_policy_before_stays(world: World):
    demand_improves(improver(world), world)


def test_noise_stays_in_its_bounds_and_chunks_are_what_the_policy_makes_of_it(world: World):
    improving, obs = improver(world, noise_bound=0.7), world[2].transitions(torch.arange(200)).obs
    for _ in range(50):
        improving.step()
    seen = improving.critics.critic.encode(obs)
    noise = improving.actor.sample(seen, torch.Generator().manual_seed(3))
    improving.generator.manual_seed(3)
    made = improving._steered(obs)
    assert noise.abs().max() < 0.7
    with torch.no_grad():
        wanted = world[0].decode_normalized(obs, noise.view_as(made))
    assert torch.equal(made, wanted)


def test_values_of_noise_are_those_of_what_it_becomes(world: World):
    improving, obs = improver(world), world[2].transitions(torch.arange(300)).obs
    for _ in range(300):
        improving.step()
    generator = torch.Generator().manual_seed(4)
    noise = torch.randn(300, improving.actor.outputs, generator=generator)
    with torch.no_grad():
        seen = improving.critics.critic.encode(obs)
        said = improving._noise_value(seen, noise)
        wanted = improving.critics.q_value(obs, improving._decode(obs, noise), generator)
    assert float(torch.corrcoef(torch.stack([said, wanted]))[0, 1]) > 0.8


@pytest.mark.parametrize("sampler", ["gaussian", "categorical"])
def test_a_policy_whose_noise_decides_nothing_is_refused(sampler: str):
    policy = make_policy(sampler, 3)
    with pytest.raises(ConfigError, match="decides nothing"):
        Dsrl.check_policy(Dsrl.Config(), policy)
    obs, noise = make_obs(4), torch.randn(4, 3, 2, dtype=torch.float64)
    torch.testing.assert_close(policy.decode(obs, noise), policy.decode(obs, -noise))


@pytest.mark.parametrize("improver_class", [Dsrl, Fql])
def test_a_policy_that_draws_on_the_way_is_refused(improver_class: type[Dsrl | Fql]):
    cfg = improver_class.Config()
    improver_class.check_policy(cfg, make_policy("ddpm", 4))  # pyright: ignore
    with pytest.raises(ConfigError, match="eval_eta"):
        improver_class.check_policy(cfg, make_policy("ddpm", 4, eval_eta=1.0))  # pyright: ignore


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world: World):
    demand_goes_on(lambda: improver(world, 20))
