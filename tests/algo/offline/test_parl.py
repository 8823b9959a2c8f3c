"""Better chunks, looked for and cloned."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from small_logged import World, demand_goes_on, demand_improves, make_improver

from robo_rl.algo.offline.parl import Parl

improver = partial(make_improver, Parl)


def test_what_pays_is_done_more_often_and_the_policy_before_stays(world: World):
    demand_improves(improver(world), world)


def test_more_draws_and_further_climbs_never_find_worse(world: World):
    """With the same noise, of which a single draw is the first."""
    obs = world[2].transitions(torch.arange(200)).obs
    gained = {}
    for draws, climbs in ((1, 0), (1, 10), (16, 0), (16, 10)):
        _, gained[draws, climbs] = improver(
            world, num_samples=draws, gradient_steps=climbs
        ).improve_actions(obs)
    assert gained[1, 0] == pytest.approx(0.0, abs=1e-6)
    assert gained[1, 10] > 0.0
    assert gained[16, 0] > 0.0
    assert gained[16, 10] >= gained[16, 0]


def test_a_climb_leads_up(world: World):
    """Of chunks drawn at random, nearly all are worth more after it."""
    policy, critics, replay = world
    obs = replay.transitions(torch.arange(200)).obs
    generator = torch.Generator().manual_seed(5)
    act = 2.0 * torch.rand(200, policy.horizon, policy.act_spec.size, generator=generator) - 1.0
    climbed = improver(world, gradient_steps=10, step_size=0.02)._gradient_ascent(obs, act)
    with torch.no_grad():
        before, after = (critics.q_value(obs, each, generator) for each in (act, climbed))
    assert float((after > before).float().mean()) > 0.9
    assert float((after - before).mean()) > 0.01


def test_a_climb_moves_no_element_further_than_its_strides(world: World):
    obs = world[2].transitions(torch.arange(50)).obs
    best, _ = improver(world, num_samples=1, gradient_steps=0).improve_actions(obs)
    climbed, _ = improver(world, num_samples=1, gradient_steps=4, step_size=0.02).improve_actions(
        obs
    )
    assert float((climbed - best).abs().max()) <= 4 * 0.02 + 1e-6
    assert float((climbed - best).abs().max()) > 0.02


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world: World):
    demand_goes_on(lambda: improver(world, 20))
