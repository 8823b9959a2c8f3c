"""GymEnv: the same transitions as a plain Gymnasium loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_gym import OKAY, faults

from robo_rl.api.env import OpenLoop
from robo_rl.env.gym_envs.env import GymEnv
from robo_rl.env.workers.pooled_env import env_seed
from robo_rl.testing.env import check_vec_env

gymnasium = pytest.importorskip("gymnasium")


def plain_loop(env_id, seeds, act, **kwargs):
    """What single Gymnasium envs give for act (N, B, T, A), one chunk of T after the other.

    An env whose episode ended waits to the end of the chunk. Rows (chunk, env, t) of
    (obs, next_obs, rew, terminated, truncated).
    """
    rows = {}
    for b, seed in enumerate(seeds):
        env = gymnasium.make(env_id, **kwargs)
        env.reset(seed=seed)
        for n in range(len(act)):
            for t in range(act.shape[2]):
                low, high = env.action_space.low, env.action_space.high
                obs, rew, terminated, truncated, _ = env.step(np.clip(act[n, b, t], low, high))
                next_obs = obs
                if terminated or truncated:
                    obs, _ = env.reset()
                rows[n, b, t] = (obs, next_obs, rew, terminated, truncated)
                if terminated or truncated:
                    break
        env.close()
    return rows


def assert_equal(chunks, rows):
    """Every step of every chunk is the plain loop's row to the bit, and not valid where none is."""
    for n, chunk in enumerate(chunks):
        for t, step in enumerate(chunk):
            for b in range(len(step.rew)):
                assert bool(step.valid[b]) == ((n, b, t) in rows)
                if (n, b, t) in rows:
                    obs, next_obs, rew, terminated, truncated = rows[n, b, t]
                    assert np.array_equal(step.obs["state"][b], np.float32(obs))
                    assert np.array_equal(step.next_obs["state"][b], np.float32(next_obs))
                    assert step.rew[b].item() == np.float32(rew)
                    assert bool(step.terminated[b]) == terminated
                    assert bool(step.truncated[b]) == truncated


def both_ends(rows):
    """How many rows terminated, how many were truncated."""
    return sum(row[3] for row in rows.values()), sum(row[4] for row in rows.values())


def run_plain_and_ours(env_id, num_envs, chunks, horizon, act_of, **fields):
    """Our chunks and the plain loop's rows for the same seeds and actions."""
    seed = 7
    env = GymEnv(GymEnv.Config(id=env_id, workers=2, **fields), num_envs)
    obs, acts, ours = env.reset(seed), [], []
    for n in range(chunks):
        acts.append(act_of(obs["state"], n))
        ours.append(env.rollout(acts[-1]) if horizon > 1 else [env.step(acts[-1][:, 0])])
        obs = ours[-1][-1].obs
    env.close()
    seeds = [env_seed(seed, b) for b in range(num_envs)]
    return ours, plain_loop(env_id, seeds, torch.stack(acts).numpy(), **fields)


def noise(num_envs, horizon, act_dim, scale):
    """Random actions that leave the limits at times."""

    def act_of(_obs, n):
        generator = torch.Generator().manual_seed(n)
        return scale * torch.randn(num_envs, horizon, act_dim, generator=generator)

    return act_of


def test_steps_equal_a_plain_loop_at_the_time_limit():
    ours, rows = run_plain_and_ours(
        "Pendulum-v1", 3, 70, 1, noise(3, 1, 1, 3.0), max_episode_steps=30
    )
    assert both_ends(rows) == (0, 6)
    assert_equal(ours, rows)


def test_steps_equal_a_plain_loop_at_termination():
    def pump(state, _n):
        return state[:, 1:].sign().unsqueeze(1)

    ours, rows = run_plain_and_ours("MountainCarContinuous-v0", 3, 130, 1, pump)
    assert both_ends(rows)[0] >= 3
    assert_equal(ours, rows)


@pytest.mark.parametrize("horizon", [1, 7])
def test_hopper_equals_a_plain_loop_in_steps_and_in_open_loop_chunks(horizon):
    pytest.importorskip("mujoco")
    act_of, chunks = noise(4, horizon, 3, 1.0), 280 // horizon
    ours, rows = run_plain_and_ours("Hopper-v5", 4, chunks, horizon, act_of, max_episode_steps=25)
    terminated, truncated = both_ends(rows)
    assert terminated > 0
    assert truncated > 0
    assert_equal(ours, rows)


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v5"])
def test_it_conforms(make, env_id):
    if env_id == "Hopper-v5":
        pytest.importorskip("mujoco")
    check_vec_env(lambda num_envs: make(env_id, num_envs, max_episode_steps=40))


def test_specs_say_what_the_env_is(make):
    env = make("Pendulum-v1")
    assert env.obs_spec.items["state"].shape == (3,)
    assert env.obs_spec.items["state"].high == (1.0, 1.0, 8.0)
    assert (env.act_spec.low, env.act_spec.high) == ((-2.0,), (2.0,))
    assert (env.dt_s, env.max_episode_steps) == (0.05, 200)
    assert isinstance(env, OpenLoop)


def test_dict_observations_keep_names_and_pixels_stay_uint8(make):
    env = make()
    obs = env.reset(0)
    env.obs_spec.validate_obs(obs)
    assert obs["rgb"].dtype == torch.uint8
    assert obs["rgb"].shape == (4, 2, 3, 3)
    assert (env.dt_s, env.act_spec.rate_hz) == (0.125, 8.0)
    steps = env.rollout(torch.zeros(4, 3, 2))
    assert [int(step.next_obs["rgb"].max()) for step in steps] == [10, 20, 30]


def test_actions_are_clipped_to_the_space(make):
    env = make()
    env.reset(0)
    step = env.step(torch.tensor([[0.0, 99.0], [0.0, -99.0], [0.0, 3.0], [0.0, 0.0]]))
    assert step.rew.tolist() == [10.0, -10.0, 3.0, 0.0]


def test_an_env_waits_behind_its_episodes_end(make):
    env = make()
    env.reset(0)
    steps = env.rollout(torch.zeros(4, 9, 2))
    assert [bool(s.valid.all()) for s in steps] == [True] * 6 + [False] * 3
    assert [bool(s.terminated.any()) for s in steps] == [False] * 5 + [True] + [False] * 3
    assert [float(s.metrics["success"].max()) for s in steps] == [0.0] * 5 + [1.0] + [0.0] * 3
    assert steps[5].next_obs["state"][:, 1].tolist() == [6.0] * 4
    for step in steps[5:]:
        assert step.obs["state"][:, 1].tolist() == [0.0] * 4
        assert torch.equal(step.obs["state"], steps[5].obs["state"])


def test_a_seed_reproduces_whatever_the_number_of_workers(make):
    def run(env, seed):
        obs = env.reset(seed)["state"]
        return torch.stack([obs, *(s.obs["state"] for _ in range(8) for s in env.rollout(act))])

    act = torch.zeros(5, 4, 2)
    first, second = make(num_envs=5, workers=1), make(num_envs=5, workers=3)
    assert torch.equal(run(first, 3), run(second, 3))
    assert torch.equal(run(first, 3), run(second, 3))
    assert not torch.equal(run(first, 3), run(first, 4))
    assert not torch.equal(run(first, 3)[0], run(first, None)[0])
    assert len(first.reset(3)["state"][:, 0].unique()) == 5


def test_results_are_not_overwritten_by_the_next_call(make):
    env = make()
    before = env.reset(0)["state"].clone()
    first = env.step(faults(OKAY, OKAY, OKAY, OKAY, argument=1.0)[:, 0])
    kept = first.obs["state"].clone(), first.rew.clone()
    env.step(torch.zeros(4, 2))
    assert torch.equal(first.obs["state"], kept[0])
    assert torch.equal(first.rew, kept[1])
    assert not torch.equal(before, first.obs["state"])


def test_the_first_seed_is_zero(make):
    env = make()
    unseeded = env.reset()
    assert torch.equal(unseeded["state"], env.reset(0)["state"])
