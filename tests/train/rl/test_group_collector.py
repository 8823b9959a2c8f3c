"""Blocks of whole episodes: one an env, groups from one start, nothing of what comes after."""

from __future__ import annotations

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.algo.advantages.critic_advantages import GroupRelativeEstimator
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError
from robo_rl.data.normalize import Normalizer
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.rl.group_collector import GroupCollector

ENVS, SIZE = 6, 3


@pytest.fixture
def reach():
    """The tiny experiment's policy, and its task as a chunked env."""
    experiment = validate(EXPERIMENT, Experiment)
    env = ChunkEnv(experiment.make_env(ENVS), obs_horizon=1, exec_horizon=4, gamma=1.0)
    torch.manual_seed(0)
    normalizer = Normalizer.identity(env.obs_spec, env.act_spec)
    yield experiment.policy.build(env.obs_spec, env.act_spec, normalizer), env
    env.close()


def collector(env: ChunkEnv, seed: int = 0) -> GroupCollector:
    generator = torch.Generator().manual_seed(seed)
    made = GroupCollector(env, generator, single_step=False, group_size=SIZE)
    made.start(seed)
    return made


def starts(rollout) -> torch.Tensor:
    """(groups, G, features) of the first observations."""
    flat = torch.cat([value[0].flatten(1) for value in rollout.obs.values()], dim=1)
    return flat.unflatten(0, (-1, SIZE))


def test_members_of_a_group_start_alike_and_then_go_their_own_ways(reach):
    policy, env = reach
    made = collector(env)
    first, _ = made.collect(policy, 1)
    second, _ = made.collect(policy, 1)
    for rollout in (first, second):
        assert torch.equal(starts(rollout), starts(rollout)[:, :1].expand(-1, SIZE, -1))
        assert not torch.equal(starts(rollout)[0, 0], starts(rollout)[1, 0])
        assert rollout.x[0].flatten(1).unique(dim=0).shape[0] == ENVS
    assert not torch.equal(starts(first), starts(second))


def test_a_decision_that_lost_its_world_midway_is_not_compared(reach):
    """A world that is lost at the second of four steps: what came before counts for nothing."""
    policy, env = reach
    made, step, calls = collector(env), env.step, [0]

    def lossy(act: torch.Tensor):
        calls[0] += 1
        found = step(act)
        if calls[0] != 2:
            return found
        lost = torch.arange(ENVS) == 1
        return found._replace(lost=lost, truncated=found.truncated | lost)

    env.step = lossy
    rollout, _ = made.collect(policy, 1)
    assert rollout.valid[:2, 1].tolist() == [True, False]
    assert bool(rollout.truncated[1, 1])
    adv = GroupRelativeEstimator(SIZE).compute_advantages(rollout)
    assert not bool(adv.rollout.valid[:, 1].any())
    assert bool(adv.rollout.valid[:, 0].any())


def test_a_block_is_one_whole_episode_an_env(reach):
    policy, env = reach
    made = collector(env)
    rollout, stats = made.collect(policy, 1)
    ended = rollout.terminated | rollout.truncated
    assert torch.equal(ended.sum(0), torch.ones(ENVS, dtype=torch.int64))
    assert len(made.cohorts.finish_block().success) == ENVS
    assert stats["invalid_decisions"] == 0.0
    last = ended.int().argmax(0)
    for b in range(ENVS):
        assert bool(rollout.valid[: last[b] + 1, b].all())
        assert not bool(rollout.valid[last[b] + 1 :, b].any())
        assert int(rollout.num_exec[last[b] + 1 :, b].sum()) == 0
        assert float(rollout.rew[last[b] + 1 :, b].abs().sum()) == 0.0


def test_parts_of_the_reward_are_of_the_block_alone():
    """Envs that are done go on earning meanwhile, which is no part of the block."""
    task = {**EXPERIMENT["task"], "reward": "sparse", "success_m": 0.25}
    experiment = validate({**EXPERIMENT, "task": task}, Experiment)
    env = ChunkEnv(experiment.make_env(ENVS), obs_horizon=1, exec_horizon=4, gamma=1.0)
    torch.manual_seed(0)
    normalizer = Normalizer.identity(env.obs_spec, env.act_spec)
    policy = experiment.policy.build(env.obs_spec, env.act_spec, normalizer)
    made = collector(env)
    rollout, stats = made.collect(policy, 1)
    env.close()
    over = (rollout.terminated | rollout.truncated).cumsum(0).bool()
    assert bool(over[:-1].any())
    assert stats["rew/success"] == stats["rew_per_step"] > 0.0


def test_envs_that_wait_rest_uncounted_and_the_block_ends_with_its_last_episode(reach):
    policy, env = reach
    made, rested = collector(env), []
    env.rest = lambda envs: rested.append(envs.clone())
    rollout, _ = made.collect(policy, 1)
    assert made.env_steps == int(rollout.num_exec.sum())
    over = (rollout.terminated | rollout.truncated).cumsum(0).bool()
    assert torch.equal(torch.stack(rested), over)
    assert bool((rollout.terminated | rollout.truncated)[-1].any())
    outcomes = made.cohorts.finish_block()
    assert len(outcomes.success) == ENVS
    torch.testing.assert_close(
        outcomes.returns.sort().values, rollout.rew.sum(0).double().sort().values
    )


def test_it_continues_from_its_state_to_the_bit(reach):
    policy, env = reach
    one = collector(env)
    one.collect(policy, 1)
    state = one.state_dict()
    expected, _ = one.collect(policy, 1)
    other = collector(env, seed=5)
    other.load_state_dict(state)
    again, _ = other.collect(policy, 1)
    assert torch.equal(expected.x, again.x)
    assert torch.equal(expected.rew, again.rew)
    assert other.env_steps == one.env_steps


def test_ppo_learns_from_groups_without_a_critic(reach):
    policy, env = reach
    algo = Ppo(
        Ppo.Config(group_size=SIZE, minibatch=32), policy, ENVS, torch.Generator().manual_seed(0)
    )
    before = torch.cat([p.flatten().clone() for p in policy.parameters()])
    metrics = algo.update(collector(env).collect(policy, 1)[0])
    after = torch.cat([p.flatten() for p in policy.parameters()])
    assert metrics["nonzero_std_groups"] > 0.0
    assert metrics["ratio_error"] < 1e-3
    assert not torch.equal(before, after)
    assert "critic" not in algo.state_dict()


def test_envs_must_make_whole_groups(reach):
    with pytest.raises(ConfigError, match="whole groups"):
        GroupCollector(reach[1], torch.Generator(), single_step=False, group_size=4)
