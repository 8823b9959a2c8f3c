"""The item ``instruction`` says what each world's episode asks for, across resets."""

from __future__ import annotations

from typing import cast

import pytest
import torch

from robo_rl.api.env import task_names
from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.env.device_transfer import MovedEnv
from robo_rl.env.latency_env import LatencyEnv
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.train.rl.group_collector import GroupCollector
from robo_rl_tasks.coloured_table.task import ColouredTable
from robo_rl_tasks.reach import Reach, ReachConfig


def make(num_envs=6, **fields):
    task = ColouredTable(validate({"actions": "pose_delta", **fields}, ColouredTable.Config))
    return SimEnv(validate({"text_encoder": "bytes"}, SimEnv.Config), task, num_envs)


def words(row: torch.Tensor) -> str:
    return bytes(row[row >= 0].tolist()).decode()


def test_an_episode_keeps_its_instruction_and_the_next_one_has_its_own():
    """The successor of the last step belongs to the old episode, the observation to the new."""
    env = make(episode_s=0.2)  # four steps
    sentences = cast("ColouredTable", env.task).sentences
    told = env.reset(0)["instruction"].clone()
    goals = env.view.goal["instruction"].clone()
    assert [words(row) for row in told] == [sentences[i] for i in goals]
    act = torch.zeros(6, env.act_spec.size)
    for number in range(4):
        step = env.step(act)
        assert torch.equal(step.next_obs["instruction"], told)
        if number < 3:
            assert torch.equal(step.obs["instruction"], told)
    now = [sentences[i] for i in env.view.goal["instruction"]]
    assert [words(row) for row in step.obs["instruction"]] == now
    assert not torch.equal(step.obs["instruction"], told)
    env.close()


def test_the_task_of_an_episode_is_a_metric_of_every_wrapper():
    env = make(episode_s=0.2)
    env.reset(1)
    tasks = env.view.goal["task"].float()
    chunks = ChunkEnv(env, obs_horizon=1, exec_horizon=4, gamma=1.0)
    chunks.reset(1)
    step = chunks.step(torch.zeros(6, 4, env.act_spec.size))
    assert torch.equal(step.metrics["task"], tasks)
    assert env.task_names == ("reach", "lift", "push", "press")
    env.close()


def test_weights_reach_the_task_through_a_wrapper():
    settings = {"env": {"name": "sim", "text_encoder": "bytes"}}
    task = ColouredTable(validate({"actions": "pose_delta"}, ColouredTable.Config))
    env = LatencyEnv(validate(settings, LatencyEnv.Config), task, 8)
    env.weigh_tasks(torch.tensor([0.0, 0.0, 0.0, 1.0]))
    env.reset(0)
    assert (env.env.view.goal["task"] == 3).all()  # pyright: ignore[reportAttributeAccessIssue]
    env.close()


def test_a_task_without_instructions_refuses_a_text_encoder():
    cfg = validate({"text_encoder": "bytes"}, SimEnv.Config)
    with pytest.raises(ConfigError, match="no instruction"):
        SimEnv(cfg, Reach(ReachConfig()), 1)


def test_a_sentence_that_does_not_fit_is_refused_before_anything_runs():
    task = ColouredTable(validate({"actions": "pose_delta"}, ColouredTable.Config))
    cfg = validate({"text_encoder": {"name": "bytes", "max_bytes": 8}}, SimEnv.Config)
    with pytest.raises(ConfigError, match="too long"):
        SimEnv(cfg, task, 1)


def test_an_env_on_another_device_keeps_its_tasks():
    env = make()
    wrapper = MovedEnv(env, torch.device("cpu"))
    assert task_names(wrapper) == env.task_names
    wrapper.weigh_tasks(torch.tensor([0.0, 1.0, 0.0, 0.0]))
    env.reset(0)
    assert (env.view.goal["task"] == 1).all()
    env.close()


def test_groups_resume_with_the_weights_of_their_tasks():
    collectors = []
    for _ in range(2):
        env = ChunkEnv(make(), obs_horizon=1, exec_horizon=4, gamma=1.0)
        ways = {"single_step": False, "group_size": 2, "by_failures": True}
        collectors.append(GroupCollector(env, torch.Generator(), **ways))
    one, other = collectors
    one.tasks.episodes += torch.tensor([8.0, 0.0, 0.0, 0.0])
    one.tasks.successes += torch.tensor([8.0, 0.0, 0.0, 0.0])
    other.load_state_dict(one.state_dict())
    one.tasks.finish_block()
    other.tasks.finish_block()
    starts = [c.env.reset_groups(2, seed=3)["instruction"] for c in collectors]
    assert torch.equal(*starts)
    assert torch.equal(one.tasks.successes, other.tasks.successes)
    for collector in collectors:
        collector.close()
