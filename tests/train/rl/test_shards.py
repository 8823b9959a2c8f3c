"""Parts of a run: which process has which, and the blocks of several beside each other."""

from __future__ import annotations

import pytest
import torch
from small_rollouts import World

from robo_rl.core.errors import ConfigError
from robo_rl.distributed import process_group as ranks
from robo_rl.distributed.process_group import RankInfo
from robo_rl.train.rl.shards import ShardPlan, _pooled, concat_rollouts


@pytest.fixture
def second_of_four(monkeypatch):
    monkeypatch.setattr(ranks, "_now", [RankInfo(1, 4)])


def test_alone_there_is_one_part_unless_more_are_asked_for():
    assert ShardPlan.of(0, None, 6) == (1, range(1))
    assert ShardPlan.of(3, None, 6) == (3, range(3))
    assert ShardPlan.of(0, 2, 6) == (2, range(2)), "a checkpoint's parts stay as they are"


def test_processes_have_as_many_parts_as_each_other(second_of_four):
    assert ShardPlan.of(0, None, 8) == (4, range(1, 2))
    assert ShardPlan.of(8, None, 16) == (8, range(2, 4))
    assert ShardPlan.of(0, 8, 16) == (8, range(2, 4))
    assert ShardPlan.of(0, 6, 24) == (4, range(1, 2)), "six parts do not make four equal shares"


def test_a_process_has_one_part_where_blocks_differ_in_length(second_of_four):
    assert ShardPlan.of(0, 8, 16, single=True) == (4, range(1, 2))
    assert ShardPlan.of(0, 4, 16, single=True) == (4, range(1, 2))


@pytest.mark.parametrize(
    ("shards", "num_envs", "says"), [(6, 24, "online.shards"), (4, 10, "online.num_envs")]
)
def test_what_does_not_come_out_even(second_of_four, shards: int, num_envs: int, says: str):
    with pytest.raises(ConfigError, match=says):
        ShardPlan.of(shards, None, num_envs)


def test_blocks_beside_each_other_are_a_block_of_all_their_envs():
    """Every decision, and every episode's end, is found at its env's new place."""
    blocks = [World(num_envs, seed=num_envs).rollout(7, ends=0.4) for num_envs in (2, 3)]
    joined = concat_rollouts(blocks, [4, 5])
    assert joined.rew.shape == (7, 5)
    starts = (0, 2)
    for block, start in zip(blocks, starts, strict=True):
        envs = slice(start, start + block.rew.shape[1])
        assert torch.equal(joined.rew[:, envs], block.rew)
        assert torch.equal(joined.x[:, envs], block.x)
        for name, seen in block.obs.items():
            assert torch.equal(joined.obs[name][:, envs], seen)
            assert torch.equal(joined.last_obs[name][envs], block.last_obs[name])
    t, env = joined.ended.T
    assert (joined.terminated | joined.truncated)[t, env].all()
    assert len(joined.ended) == sum(len(block.ended) for block in blocks)
    rows = {name: torch.cat([b.final_obs[name] for b in blocks]) for name in joined.final_obs}
    assert all(torch.equal(joined.final_obs[name], value) for name, value in rows.items())
    assert joined.shards is not None
    assert joined.shards.tolist() == [
        4 if env < 2 else 5 for t in range(7) for env in range(5) if joined.valid[t, env]
    ]


def test_what_is_earned_a_step_is_weighed_by_steps_and_troubles_are_counted():
    parts = [
        {"rew_per_step": 1.0, "rew/reach": 0.5, "invalid_decisions": 2.0},
        {"rew_per_step": 3.0, "rew/reach": 1.5, "invalid_decisions": 1.0},
    ]
    assert _pooled(parts, [30, 10]) == {
        "rew_per_step": 1.5,
        "rew/reach": 0.75,
        "invalid_decisions": 3.0,
    }
