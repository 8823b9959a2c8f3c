"""Groups of envs start alike, and go on alike for as long as they act alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robo_rl.api.env import Groupable, Step
from robo_rl.config.component import component
from robo_rl.config.registry import load
from robo_rl.core.errors import ConfigError, PluginError
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.gym_envs.env import GymEnv
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm

MASS = (RandomizeTerm(field="body_mass", name="cart", range=(0.2, 5.0)),)


def members(obs: dict[str, Tensor], size: int) -> Tensor:
    """(groups, size, features)."""
    flat = torch.cat([value.flatten(1) for value in obs.values()], dim=1)
    return flat.unflatten(0, (-1, size))


def alike(obs: dict[str, Tensor], size: int) -> bool:
    """Whether members of a group are equal to the bit and no two groups are."""
    groups = members(obs, size)
    leaders = groups[:, 0]
    different = len(leaders.unique(dim=0)) == len(leaders)
    return bool((groups == groups[:, :1]).all()) and different


def check_groups_of(env, size: int, act: Tensor) -> Step:
    """The same action everywhere keeps members alike; actions of their own do not."""
    env.reset_groups(size, 7)
    for _ in range(3):
        step = env.step(act.expand(env.num_envs, -1))
        assert alike(step.next_obs, size)
    leader = torch.arange(env.num_envs)[:, None] % size == 0
    step = env.step(torch.where(leader, -act, act))
    assert not alike(step.next_obs, size)
    return step


@pytest.mark.parametrize("randomize", [(), MASS])
def test_simulated_worlds_of_a_group_start_alike_and_have_one_mass(cart, randomize):
    env = cart.env(6, randomize)
    assert isinstance(env, Groupable)
    assert alike(env.reset_groups(3, 7), 3)
    check_groups_of(env, 3, torch.tensor([[0.7]]))


def test_a_groups_start_is_its_seeds(cart):
    env = cart.env(6)
    first = members(env.reset_groups(3, 1), 3)
    other = members(env.reset_groups(3, 2), 3)
    assert not torch.equal(first, other)
    assert torch.equal(first, members(env.reset_groups(3, 1), 3))


def test_groups_of_one_are_a_reset(cart):
    env = cart.env(4)
    assert torch.equal(members(env.reset_groups(1, 5), 1), members(env.reset(5), 1))


def test_the_next_episodes_of_a_group_are_their_own(cart):
    env = cart.env(6, steps=2)
    env.reset_groups(3, 7)
    act = torch.full((6, 1), 0.5)
    env.step(act)
    step = env.step(act)
    assert bool(step.truncated.all())
    assert alike(step.next_obs, 3)
    assert len(members(step.obs, 1).flatten(1).unique(dim=0)) == 6


def test_reach_starts_alike_with_its_goal():
    task = component("tasks").make({"name": "reach", "robot": "panda"}).build()
    env = load("envs", "sim")(load("envs", "sim").Config(), task, 6)
    try:
        assert alike(env.reset_groups(3, 0), 3)
        check_groups_of(env, 3, torch.full((1, env.act_spec.size), 0.3))
    finally:
        env.close()


def test_gymnasium_envs_of_a_group_start_alike_in_whatever_worker():
    env = GymEnv(GymEnv.Config(id="Pendulum-v1", workers=2), 6)
    try:
        assert isinstance(env, Groupable)
        assert alike(env.reset_groups(2, 3), 2)
        check_groups_of(env, 2, torch.tensor([[1.5]]))
        assert torch.equal(members(env.reset_groups(1, 5), 1), members(env.reset(5), 1))
    finally:
        env.close()


def test_a_chunk_env_fills_the_history_of_what_starts_alike(cart):
    env = ChunkEnv(cart.env(6), obs_horizon=2, exec_horizon=3, gamma=0.9)
    obs = env.reset_groups(3, 7)
    assert alike(obs, 3)
    assert all(torch.equal(value[:, 0], value[:, 1]) for value in obs.values())
    assert alike(env.step(torch.full((6, 3, 1), 0.4)).next_obs, 3)


def test_what_cannot_be_grouped_is_one_typed_error(cart):
    with pytest.raises(ConfigError, match="multiple of the group size 4"):
        cart.env(6).reset_groups(4, 0)

    class Plain:
        num_envs, device = 2, torch.device("cpu")
        obs_spec = act_spec = dt_s = max_episode_steps = None

    env = ChunkEnv(Plain(), obs_horizon=1, exec_horizon=1, gamma=0.9)  # pyright: ignore[reportArgumentType]
    with pytest.raises(PluginError, match="reset_groups"):
        env.reset_groups(2, 0)
