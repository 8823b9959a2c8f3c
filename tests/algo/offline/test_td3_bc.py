"""A student of one step, near the data and towards what is worth more."""

from __future__ import annotations

import pytest
import torch
from small_logged import World, demand_goes_on, judged_world, offline_inputs, paying

from robo_rl.algo.offline.td3_bc import Td3Bc


@pytest.fixture(scope="module")
def world() -> World:
    return judged_world()


def improver(world: World, steps: int = 300, **settings: object) -> Td3Bc:
    cfg = Td3Bc.Config(minibatch=64, optim={"lr": 3e-3, "ema_decay": 0.9}, **settings)  # pyright: ignore
    return Td3Bc(cfg, offline_inputs(world, steps))


def made(improving: Td3Bc, world: World) -> torch.Tensor:
    """(2, 300, 2): executed actions in the same states, of two draws of noise."""
    obs = world[2].transitions(torch.arange(300)).obs
    with torch.no_grad():
        chunks = [improving.policy.decode_normalized(obs, improving.noise(obs)) for _ in range(2)]
    return torch.stack(chunks)[:, :, 0]


def test_what_pays_is_done_more_often_in_one_step_and_the_policy_before_stays(world: World):
    policy, _, replay = world
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    improving = improver(world)
    for _ in range(300):
        improving.step()
    assert improving.policy.num_steps == 1
    assert paying(improving.policy, replay) > 0.9
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())


def test_it_does_one_thing_where_the_data_do_many(world: World):
    """Where values count for little, the mean of the data, whatever the noise."""
    improving = improver(world, alpha=1e-6)
    for _ in range(300):
        improving.step()
    one, other = made(improving, world)
    assert float((one - other).square().mean().sqrt()) < 0.15  # the data's own spread is 0.58
    assert float(one.mean().abs()) < 0.15


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world: World):
    demand_goes_on(lambda: improver(world, 20))
