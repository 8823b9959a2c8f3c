"""Tasks that fail are drawn more often; the counts are those of the episodes that ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from robo_rl.core.errors import ConfigError
from robo_rl.train.rl.task_sampler import FLOOR, TaskSampler, success_by_task


class _Env:
    num_envs, device = 4, torch.device("cpu")
    task_names: tuple[str, ...] = ("easy", "hard")

    def __init__(self) -> None:
        self.weights: torch.Tensor | None = None

    def weigh_tasks(self, weights: torch.Tensor) -> None:
        self.weights = weights


def step(tasks: list[int], lost: list[bool] | None = None) -> Any:
    lost_ = torch.tensor(lost or [False] * len(tasks))
    return SimpleNamespace(metrics={"task": torch.tensor(tasks).float()}, lost=lost_)


def flags(*values: int) -> torch.Tensor:
    return torch.tensor(values) > 0


def sampler(env: _Env, *, by_failures: bool = True) -> TaskSampler:
    found = TaskSampler.of(cast(Any, env), by_failures)
    assert found is not None
    return found


def test_weights_are_the_failure_rates_and_a_floor():
    """Easy: 3 of 3; hard: 0 of 1. Failed are (4 − 3.5) / 4 and (2 − 0.5) / 2."""
    env = _Env()
    tasks = sampler(env)
    tasks.record(step([0, 0, 1, 1]), flags(1, 1, 0, 0), flags(1, 1, 1, 0))
    tasks.record(step([0, 0, 1, 1]), flags(1, 0, 0, 0), flags(1, 0, 0, 0))
    found = tasks.finish_block()
    assert found["episodes/easy"] == 3
    assert found["successes/easy"] == 3
    assert found["episodes/hard"] == 1
    assert env.weights is not None
    assert env.weights.tolist() == pytest.approx([0.125 + FLOOR, 0.75 + FLOOR])


def test_a_lost_episode_does_not_count():
    tasks = sampler(_Env())
    tasks.record(step([0, 1], lost=[True, False]), flags(0, 1), flags(1, 1))
    found = tasks.finish_block()
    assert (found["episodes/easy"], found["episodes/hard"]) == (0, 1)


def test_even_sampling_counts_and_leaves_the_weights():
    env = _Env()
    tasks = sampler(env, by_failures=False)
    tasks.record(step([0, 1]), flags(0, 1), flags(1, 1))
    assert tasks.finish_block()["successes/hard"] == 1
    assert env.weights is None


def test_a_resumed_run_goes_on_with_the_same_weights():
    env, other = _Env(), _Env()
    tasks = sampler(env)
    tasks.record(step([0, 0, 1]), flags(1, 0, 0), flags(1, 1, 1))
    tasks.finish_block()
    sampler(other).load_state_dict(tasks.state_dict())
    assert env.weights is not None
    assert other.weights is not None
    assert torch.equal(env.weights, other.weights)


def test_an_env_of_one_task_has_no_sampler():
    env = _Env()
    env.task_names = ()
    assert TaskSampler.of(cast(Any, env), by_failures=False) is None
    with pytest.raises(ConfigError, match="no tasks to draw from"):
        TaskSampler.of(cast(Any, env), by_failures=True)


def test_the_share_of_successes_takes_the_place_of_their_number():
    stats = {"episodes/a": 4.0, "successes/a": 1.0, "episodes/b": 0.0, "successes/b": 0.0}
    assert success_by_task(stats | {"jerk": 2.0}) == {
        **{"episodes/a": 4.0, "episodes/b": 0.0, "jerk": 2.0},
        "success/a": 0.25,
    }
