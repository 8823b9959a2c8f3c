"""PPO in the denoising chain on logged states."""

from __future__ import annotations

import copy

import pytest
import torch
from small_logged import logged_replay, small_policy

from robo_rl.algo.iql import Iql
from robo_rl.algo.offline_ppo import OfflinePpo, normalised
from robo_rl.critic.q import QCritic
from robo_rl.critic.value import ValueCritic
from robo_rl.data.replay import Replay
from robo_rl.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy


@pytest.fixture(scope="module")
def world() -> tuple[DenoisingPolicy, Iql, Replay]:
    """Half of the logged decisions pay; critics that know which."""
    generator, replay = torch.Generator().manual_seed(0), logged_replay(800)
    torch.manual_seed(0)
    policy = small_policy()
    small = {"critic": QCritic.Config(members=2, hidden=(32,)), "lr": 3e-3, "target_ema": 0.9}
    critics = Iql(Iql.Config(value=ValueCritic.Config(hidden=(32,)), **small), policy, generator)  # pyright: ignore
    for _ in range(300):
        critics.step(replay.sample(128, generator))
    return policy, critics, replay


def improver(
    world: tuple[DenoisingPolicy, Iql, Replay], steps: int, **settings: object
) -> OfflinePpo:
    policy, critics, replay = world
    cfg = OfflinePpo.Config(lr=3e-3, minibatch=128, follow=20, **settings)  # pyright: ignore
    generator = torch.Generator().manual_seed(1)
    return OfflinePpo(cfg, policy, critics, replay, steps=steps, generator=generator)


def paying(policy: DenoisingPolicy, replay: Replay) -> float:
    obs = replay.transitions(torch.arange(400)).obs
    act = policy.act(obs, torch.Generator().manual_seed(2))
    return float((act[:, 0, 0] > 0.0).float().mean())


@pytest.mark.parametrize("ratio", ["joint", "per_step"])
def test_what_pays_is_done_more_often_and_the_policy_before_stays(world, ratio):
    policy, _, replay = world
    before = {name: x.clone() for name, x in policy.state_dict().items()}
    improving = improver(world, 200, ratio=ratio)
    for _ in range(200):
        improving.step()
    assert paying(improving.policy, replay) > paying(policy, replay) + 0.2
    assert all(torch.equal(x, before[name]) for name, x in policy.state_dict().items())


def test_behind_a_trust_region_that_does_not_follow_it_stays_nearer(world):
    kls = {}
    for follow in (0, 20):
        improving = improver(world, 200)
        improving.cfg = improving.cfg.model_copy(update={"follow": follow})
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
    for _ in range(13):
        first.step()
    second = improver(world, 30)
    second.load_state_dict(first.state_dict())
    second.generator.set_state(first.generator.get_state())
    for _ in range(17):
        second.step()
    for name, x in whole.policy.state_dict().items():
        assert torch.equal(x, second.policy.state_dict()[name]), name


def test_a_policy_without_a_density_is_refused(world):
    policy, critics, replay = world
    still = copy.deepcopy(policy)
    still.sampler = still.eval_sampler
    with pytest.raises(ConfigError, match="no denoising step is both stochastic and trained"):
        improver((still, critics, replay), 10)


def test_advantages_are_about_their_mean_in_units_of_their_spread():
    found = normalised(torch.tensor([1.0, 2.0, 3.0]))
    torch.testing.assert_close(found, torch.tensor([-1.0, 0.0, 1.0]))
