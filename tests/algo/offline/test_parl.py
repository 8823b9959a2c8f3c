"""Better chunks, looked for and cloned."""

from __future__ import annotations

import pytest
import torch
from small_logged import World, demand_goes_on, judged_world, offline_inputs, paying

from robo_rl.algo.offline.parl import Parl


@pytest.fixture(scope="module")
def world() -> World:
    return judged_world()


def improver(world: World, steps: int = 300, **settings: object) -> Parl:
    cfg = Parl.Config(minibatch=64, optim={"lr": 3e-3, "ema_decay": 0.9}, **settings)  # pyright: ignore
    return Parl(cfg, offline_inputs(world, steps))


def test_what_pays_is_done_more_often_and_the_policy_before_stays(world: World):
    policy, _, replay = world
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    improving = improver(world)
    for _ in range(300):
        improving.step()
    assert paying(improving.policy, replay) > max(0.9, paying(policy, replay))
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())


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
