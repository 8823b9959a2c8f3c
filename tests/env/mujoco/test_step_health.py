"""A task whose rewards are not finite is told at the end of a chunk, and nothing moves on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from robo_rl.core.errors import PluginError
from robo_rl.env.mujoco.step_health import StepHealth

STILL = torch.zeros(3, 6, 1)


def spoil_rewards(env: Any, from_step: int, *, later: str = "") -> None:
    """From a step of a chunk on all rewards are NaN; after it a method may fail as well."""
    plain, calls = env.task.reward, [0]

    def reward(view: Any, act: Any) -> Any:
        calls[0] += 1
        if later and calls[0] > from_step:
            raise RuntimeError(later)
        rew, parts = plain(view, act)
        return (rew * torch.nan if calls[0] >= from_step else rew), parts

    env.task.reward = reward


@pytest.mark.parametrize("open_loop", [True, False])
@pytest.mark.parametrize("later", ["", "of a state that follows"])
def test_a_fault_within_a_chunk_is_told_and_the_env_goes_on_after_a_reset(cart, open_loop, later):
    env = cart.env(3, steps=20, open_loop=open_loop)
    first = env.reset(0)
    plain = env.task.reward
    spoil_rewards(env, 3, later=later)
    stream = env._generator.get_state()
    with pytest.raises(PluginError, match=r"reward of a world that is well.*3 of 3"):
        env.rollout(STILL)
    assert torch.equal(env._generator.get_state(), stream)
    assert all(torch.equal(env._obs[name], value) for name, value in first.items())
    env.task.reward = plain
    again = env.reset(0)
    assert all(torch.equal(again[name], value) for name, value in first.items())
    assert all(bool(step.valid.all()) for step in env.rollout(STILL))


def test_one_world_is_lost_alone_and_no_world_is_the_tasks_fault():
    task: Any = SimpleNamespace()
    obs, good = {"pos": torch.zeros(2, 3)}, torch.tensor([True, True])
    with StepHealth(task) as health:
        finite = health.judge(torch.tensor([torch.nan, 1.0]), obs, good)
        assert finite.tolist() == [False, True]
        assert health.judge(torch.full((2,), torch.inf), obs, ~good).tolist() == [False, False]
    health.judge(torch.full((2,), torch.inf), obs, good)
    with pytest.raises(PluginError, match="reward"):
        health.report()
