"""A student of one step, near the policy and towards what is worth more."""

from __future__ import annotations

import pytest
import torch
from small_logged import World, demand_goes_on, judged_world, offline_inputs, paying

from robo_rl.algo.offline.fql import Fql


@pytest.fixture(scope="module")
def world() -> World:
    return judged_world()


def improver(world: World, steps: int = 300, **settings: object) -> Fql:
    cfg = Fql.Config(minibatch=64, optim={"lr": 3e-3, "ema_decay": 0.9}, **settings)  # pyright: ignore
    return Fql(cfg, offline_inputs(world, steps))


def apart(improving: Fql, world: World) -> float:
    """Mean squared distance of the student's chunks from the policy's, of the same noise."""
    policy, _, replay = world
    obs = replay.transitions(torch.arange(300)).obs
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(300, policy.horizon, policy.act_spec.size, generator=generator)
    with torch.no_grad():
        one, many = (each.decode_normalized(obs, noise) for each in (improving.policy, policy))
    return float((one - many).square().mean())


def test_what_pays_is_done_more_often_in_one_step_and_the_policy_before_stays(world: World):
    policy, _, replay = world
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    improving = improver(world, alpha=0.3)
    for _ in range(300):
        improving.step()
    assert improving.policy.num_steps == 1
    assert paying(improving.policy, replay) > max(0.9, paying(policy, replay))
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())


def test_the_larger_alpha_the_nearer_it_stays(world: World):
    found = {}
    for alpha in (0.3, 300.0):
        improving = improver(world, alpha=alpha)
        for _ in range(300):
            improving.step()
        found[alpha] = apart(improving, world)
    assert found[300.0] < 0.05
    assert found[0.3] > 3.0 * found[300.0]


def test_its_critics_are_its_own(world: World):
    critics = world[1]
    before = {name: x.clone() for name, x in critics.target.module.state_dict().items()}
    improving = improver(world)
    improving.step()
    for name, x in critics.target.module.state_dict().items():
        assert torch.equal(x, before[name]), name
    changed = improving.critics.critic.net.state_dict()
    assert any(not torch.equal(x, before[f"net.{name}"]) for name, x in changed.items())


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world: World):
    demand_goes_on(lambda: improver(world, 20))
