"""PPO in the denoising chain on logged states."""

from __future__ import annotations

import copy

import pytest
import torch
from small_logged import World, judged_world, offline_inputs, paying

from robo_rl.algo.offline.bppo import Bppo, standardize
from robo_rl.core.errors import ConfigError


@pytest.fixture(scope="module")
def world() -> World:
    return judged_world()


def improver(world: World, steps: int, **settings: object) -> Bppo:
    cfg = Bppo.Config(lr=3e-3, minibatch=128, behaviour_update_every=20, **settings)  # pyright: ignore
    return Bppo(cfg, offline_inputs(world, steps))


@pytest.mark.parametrize("ratio", ["joint", "per_step"])
def test_what_pays_is_done_more_often_and_the_policy_before_stays(world, ratio):
    policy, _, replay = world
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    improving = improver(world, 200, ratio=ratio)
    for _ in range(200):
        improving.step()
    assert paying(improving.policy, replay) > paying(policy, replay) + 0.2
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())


@pytest.mark.slow
def test_behind_a_trust_region_that_does_not_follow_it_stays_nearer(world):
    kls = {}
    for follow in (0, 20):
        improving = improver(world, 200)
        improving.cfg = improving.cfg.model_copy(update={"behaviour_update_every": follow})
        for _ in range(200):
            improving.step()
        obs = world[2].transitions(torch.arange(400)).obs
        chain = world[0].sample(obs, torch.Generator().manual_seed(3))
        ours = improving.policy
        k, x = torch.full((400,), ours.num_steps - 1), chain.x[:, -2]
        kernels = [each.kernel(each.encode(obs), k, x) for each in (world[0], ours)]
        kls[follow] = float(kernels[0].kl(kernels[1]).detach().sum(dim=(1, 2)).mean())
    assert kls[0] < kls[20]


def test_a_run_that_is_cut_off_goes_on_to_the_bit(world):
    whole, first = improver(world, 30), improver(world, 30)
    for _ in range(30):
        whole.step()
    for _ in range(23):
        first.step()
    second = improver(world, 30)
    second.load_state_dict(first.state_dict())
    second.generator.set_state(first.generator.get_state())
    for _ in range(7):
        second.step()
    for name, x in whole.policy.state_dict().items():
        assert torch.equal(x, second.policy.state_dict()[name]), name


def test_a_policy_without_a_density_is_refused(world):
    policy, critics, replay = world
    still = copy.deepcopy(policy)
    still.sampler = still.eval_sampler
    with pytest.raises(ConfigError, match="no denoising step is both stochastic and trained"):
        improver((still, critics, replay), 10)


@pytest.mark.parametrize(
    "settings", [{}, {"precision": "bf16"}, {"ratio": "cfm"}, {"ratio": "per_step"}]
)
def test_what_is_held_is_how_far_the_policy_is_from_the_one_that_drew(world, settings):
    improving = improver(world, 40, **settings)
    improving.cfg = improving.cfg.model_copy(update={"behaviour_update_every": 0})
    kls = [improving.step()["kl"] for _ in range(20)]
    assert abs(kls[0]) < 1e-6
    assert kls[-1] > 1e-4


def test_chains_of_one_random_step_are_drawn_where_that_step_is_what_is_compared(world):
    assert improver(world, 10, ratio="single_step").step()["kl"] == pytest.approx(0.0, abs=1e-5)


def test_a_policy_of_which_steps_are_to_stay_as_cloned_is_refused(world):
    policy, critics, replay = world
    partly = copy.deepcopy(policy)
    partly.cfg = policy.cfg.model_copy(update={"finetune_steps": 1})
    with pytest.raises(ConfigError, match="trains all denoising steps"):
        improver((partly, critics, replay), 10)


def test_advantages_are_about_their_mean_in_units_of_their_spread():
    found = standardize(torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(found, torch.tensor([-1.0, 0.0, 1.0]))
