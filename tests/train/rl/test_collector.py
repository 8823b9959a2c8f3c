"""Collecting on a real task: noise that goes on within episodes, and resuming to the bit."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import pytest
import torch

from robo_rl.api.env import Step
from robo_rl.config.component import component
from robo_rl.core.seeding import make_generator
from robo_rl.data.normalize import Normalizer
from robo_rl.data.rollout import Rollout
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.rl.collector import Collector

NUM_ENVS = 16
OFFSET = {"name": "flow_noise", "std_min": 0.1, "std_max": 0.1, "chunk_correlation": 1.0}


def make_env(**fields: Any) -> ChunkEnv:
    settings = {"name": "reach", "robot": "panda", "episode_s": 1.0, **fields}
    task = component("tasks").make(settings).build()
    env = component("envs").make("sim").build(task, NUM_ENVS)
    return ChunkEnv(env, obs_horizon=1, exec_horizon=4, gamma=0.99)


def make_policy(env: ChunkEnv, **fields: Any) -> DenoisingPolicy:
    """Small chunks around zero, to which only exploration adds."""
    torch.manual_seed(0)
    settings = {
        "name": "flow",
        "num_steps": 2,
        "horizon": 4,
        "exec_horizon": 4,
        "net": {"name": "mlp", "width": 8, "depth": 1},
        "sampler": OFFSET,
        **fields,
    }
    normalizer = Normalizer.identity(env.obs_spec, env.act_spec)
    policy = component("policies").make(settings).build(env.obs_spec, env.act_spec, normalizer)
    with torch.no_grad():
        for parameter in policy.net.parameters():
            parameter *= 0.0
    return policy


@cache
def explored(noise: float) -> tuple[Rollout, dict[str, float]]:
    env = make_env()
    collector = Collector(env, make_generator("explore", 0), single_step=False)
    collector.start(0)
    # x[0] is drawn alike; the two steps leave nothing of it (predicted actions are zero)
    policy = make_policy(env, correlation={"noise": noise})
    collected = collector.collect(policy, 20)
    env.close()
    return collected


def test_jerk_falls_as_exploration_goes_on_and_its_size_is_kept():
    """All jerk is at borders here: steps of variance 2σ²·(1 − β), hence in proportion √(1 − β)."""
    jerks = [explored(noise)[1]["jerk"] for noise in (0.0, 0.5, 0.9)]
    shares = [jerk / jerks[0] for jerk in jerks[1:]]
    assert shares == pytest.approx([0.5**0.5, 0.1**0.5], rel=0.06)
    # Step 0 ends half-way to the action, ½·x[0] + noise; from there step 1 leads to it, 0 + noise.
    spread = [float(explored(noise)[0].x[:, :, -1].std()) for noise in (0.0, 0.9)]
    assert spread == pytest.approx([0.1, 0.1], rel=0.06)


def test_parts_of_the_reward_are_means_per_env_step():
    """A sparse reward is its one part, also where episodes end within chunks of four."""
    env = make_env(reward="sparse", terminate_on_success=False, success_m=0.3, episode_s=0.5)
    collector = Collector(env, make_generator("explore", 0), single_step=False)
    collector.start(0)
    rollout, stats = collector.collect(make_policy(env), 12)
    env.close()
    assert int(rollout.num_exec.min()) == 2
    assert 0.0 < stats["rew_per_step"] < 1.0
    assert stats["rew/success"] == stats["rew_per_step"]


def test_noise_follows_from_one_decision_to_the_next_within_episodes():
    rollout, _ = explored(0.9)
    assert rollout.noise_continues is not None
    over = rollout.terminated | rollout.truncated
    assert not rollout.noise_continues[0].any()
    assert torch.equal(rollout.noise_continues[1:], ~over[:-1])
    offset = rollout.x[:, :, -1, 0] / 0.1
    product = (offset[1:] * offset[:-1]).mean(dim=-1)
    assert abs(float(product[rollout.noise_continues[1:]].mean()) - 0.9) < 0.15
    assert abs(float(product[~rollout.noise_continues[1:]].mean())) < 0.2


def test_without_correlation_nothing_is_kept_of_it():
    rollout, _ = explored(0.0)
    assert rollout.noise_continues is None
    assert rollout.initial_noise is None


def test_collecting_goes_on_from_its_state_to_the_bit():
    sampler = {**OFFSET, "std_max": {"start": 0.3, "end": 0.1}}
    fields = {"sampler": sampler, "correlation": {"start": 0.5, "noise": 0.8}}
    env = make_env()
    policy = make_policy(env, **fields)
    collector = Collector(env, make_generator("explore", 0), single_step=False)
    collector.start(0)
    policy.set_progress(0.5)
    collector.collect(policy, 3)
    state = collector.state_dict()
    policy.set_progress(0.75)
    whole, stats = collector.collect(policy, 3)

    resumed, policy = Collector(env, make_generator("explore", 1), single_step=False), None
    resumed.load_state_dict(state)
    policy = make_policy(env, **fields)
    policy.set_progress(0.75)
    again, more = resumed.collect(policy, 3)
    env.close()
    assert torch.equal(whole.x, again.x)
    assert torch.equal(whole.log_prob, again.log_prob)
    assert whole.initial_noise is not None
    assert again.initial_noise is not None
    assert whole.initial_noise.any()
    assert torch.equal(whole.initial_noise, again.initial_noise)
    assert stats == more


class Forgetful:
    """An env that cannot be put back where it was; it keeps how it was started and what it paid."""

    def __init__(self, env: Any) -> None:
        self.env, self.seeds, self.paid = env, list[int | None](), torch.zeros(NUM_ENVS)
        self.num_envs, self.device, self.dt_s = env.num_envs, env.device, env.dt_s
        self.obs_spec, self.act_spec = env.obs_spec, env.act_spec
        self.max_episode_steps = env.max_episode_steps

    def reset(self, seed: int | None = None) -> dict[str, torch.Tensor]:
        self.seeds.append(seed)
        return self.env.reset(seed)

    def step(self, act: torch.Tensor) -> Step:
        step = self.env.step(act)
        self.paid += step.rew
        return step

    def close(self) -> None:
        self.env.close()


def forgetful(seed: int) -> tuple[Collector, Forgetful]:
    plain = Forgetful(make_env().env)
    env = ChunkEnv(plain, obs_horizon=1, exec_horizon=4, gamma=0.9)
    collector = Collector(env, make_generator("explore", seed), single_step=False)
    collector.start(seed)
    return collector, plain


def test_returns_are_plain_sums_of_rewards():
    collector, plain = forgetful(0)
    decisions = plain.max_episode_steps // 4
    rollout, stats = collector.collect(make_policy(collector.env), decisions)
    assert (rollout.terminated | rollout.truncated)[-1].all()
    returns = collector.cohorts.ended[:, 2]
    plain.close()
    torch.testing.assert_close(returns.float(), plain.paid)
    assert stats["rew_per_step"] == pytest.approx(float(plain.paid.mean()) / (4 * decisions))


def test_without_a_snapshot_collecting_goes_on_with_new_episodes():
    collector, plain = forgetful(0)
    collector.collect(make_policy(collector.env), 2)  # into the middle of all episodes
    state = copy.deepcopy(collector.state_dict())
    found = []
    for seed in (7, 8):
        again, resumed = forgetful(seed)
        again.load_state_dict(copy.deepcopy(state))
        assert again.env_steps == collector.env_steps
        rollout, _ = again.collect(make_policy(again.env), plain.max_episode_steps // 4)
        assert (rollout.terminated | rollout.truncated)[-1].all()
        # Nothing of what was paid before counts towards the episodes of now.
        torch.testing.assert_close(again.cohorts.ended[:, 2].float(), resumed.paid)
        found.append(rollout.x)
        resumed.close()
    plain.close()
    assert torch.equal(*found)


def test_seeds_that_go_on_without_a_snapshot_stay_different():
    starts = dict[int, list[int | None]]()
    for seed in (1, 2):
        collector, plain = forgetful(seed)
        collector.collect(make_policy(collector.env), 1)
        state = collector.state_dict()
        again, resumed = forgetful(99)
        again.load_state_dict(state)
        assert again.env_steps == collector.env_steps
        starts[seed] = resumed.seeds
        plain.close()
        resumed.close()
    assert starts[1][-1] != starts[2][-1]
