"""GymRobotics: tasks by their names, episodes that a seed alone fixes, experts that succeed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
import torch
from small_families import demonstrate, makers

from robo_rl.core.errors import DeviceError
from robo_rl.env.gym_envs.gym_robotics import ACT_NAMES, OBS_NAMES, GymRobotics
from robo_rl.testing.env import check_vec_env

installed = pytest.mark.skipif(
    importlib.util.find_spec("gymnasium_robotics") is None,
    reason="Gymnasium-Robotics is not installed",
)
TASKS = ("FetchPush-v4", "FetchPickAndPlace-v4")
BLOCK, GOAL = slice(3, 6), slice(25, 28)


@pytest.fixture
def make():
    """Makes envs and closes them."""
    yield from makers(GymRobotics, "FetchPush-v4")


def stacked(steps, name):
    return torch.stack([getattr(step, name) for step in steps])


@installed
@pytest.mark.parametrize("task", [TASKS[0], pytest.param(TASKS[1], marks=pytest.mark.slow)])
def test_it_conforms(make, task):
    check_vec_env(lambda num_envs: make(task, num_envs))


@installed
def test_specs_say_what_is_what(make, capfd):
    env = make("FetchPickAndPlace-v4")
    state = env.obs_spec.items["state"]
    assert (state.shape, state.names) == ((28,), OBS_NAMES)
    assert len(set(OBS_NAMES)) == 28
    assert (env.act_spec.names, env.act_spec.reference) == (ACT_NAMES, "delta")
    assert (env.act_spec.low, env.act_spec.high) == ((-1.0,) * 4, (1.0,) * 4)
    assert env.dt_s == pytest.approx(0.04)
    assert env.max_episode_steps == 50

    env.reset(0)
    acts = torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 4)
    first, second = (
        {name: step.obs["state"][:, i] for i, name in enumerate(OBS_NAMES)}
        for step in (env.step(acts), env.step(acts))
    )
    moved = second["hand_x"] - first["hand_x"]
    assert (moved > 0.01).all()
    assert ((second["hand_vx"] / moved - 1).abs() < 0.5).all(), "velocities are per step"
    away = second["object_x"] - second["hand_x"]
    torch.testing.assert_close(second["object_from_hand_x"], away)
    assert (second["right_finger"] > first["right_finger"]).all(), "a positive action opens"
    assert not any(capfd.readouterr()), "a worker printed something"


@installed
def test_an_episode_depends_on_its_seed_alone(make):
    def run(env, seed):
        obs = env.reset(seed)["state"]
        act = torch.linspace(-1, 1, 5 * 6 * 4).reshape(5, 6, 4)
        return torch.stack([obs, *(step.obs["state"] for step in env.rollout(act))])

    first, second = make(num_envs=5, workers=1), make(num_envs=5, workers=3)
    course = run(first, 3)
    demonstrate(first, 30)
    assert torch.equal(run(first, 3), course)
    assert torch.equal(run(second, 3), course)
    assert not torch.equal(run(second, 4)[0], course[0])
    assert not torch.equal(run(second, None)[0], course[0])


@installed
def test_success_is_a_block_at_its_goal_pays_once_and_ends_the_episode(make):
    env = make()
    env.reset(0)
    steps = demonstrate(env, 40)
    for step in steps:
        state = step.next_obs["state"]
        distance = (state[:, BLOCK] - state[:, GOAL]).norm(dim=1)
        assert torch.equal(distance < 0.05, step.terminated)
        assert torch.equal(step.rew, step.terminated.float())
        assert torch.equal(step.metrics["success"], step.terminated.float())
    assert stacked(steps, "terminated").any(0).all()


@pytest.mark.slow
@installed
def test_an_episode_may_go_on_after_success(make):
    env = make(terminate_on_success=False)
    env.reset(0)
    steps = demonstrate(env, 50)
    success = torch.stack([step.metrics["success"] for step in steps])
    assert (success.sum(0) > 5).all()
    assert success[-1].all(), "the expert keeps the block at its goal"
    assert torch.equal(stacked(steps, "rew").sum(0), torch.ones(4))
    assert not stacked(steps, "terminated").any()
    assert stacked(steps, "truncated").all(1).tolist() == [False] * 49 + [True]


@installed
def test_the_dense_reward_is_twice_the_distance_and_success_costs_nothing(make):
    env = make(reward="dense")
    env.reset(0)
    steps = demonstrate(env, 40)
    state = torch.stack([step.next_obs["state"] for step in steps])
    distance = (state[..., BLOCK] - state[..., GOAL]).norm(dim=-1)
    expected = (-2 * distance).clamp(min=-1).masked_fill(stacked(steps, "terminated"), 0.0)
    torch.testing.assert_close(stacked(steps, "rew"), expected)
    assert stacked(steps, "terminated").any()


@pytest.mark.slow
@installed
@pytest.mark.parametrize("task", TASKS)
def test_the_expert_succeeds(make, task):
    env = make(task, 20)
    env.reset(1)
    assert stacked(demonstrate(env, 49), "terminated").any(0).sum() >= 19


@installed
@pytest.mark.slow
def test_noise_makes_the_expert_worse(make):
    env = make("FetchPickAndPlace-v4", 20)
    env.reset(1)
    assert stacked(demonstrate(env, 49, noise=1.0), "terminated").any(0).sum() <= 10


def test_without_gymnasium_robotics_the_command_is_named(monkeypatch):
    find_spec, name = importlib.util.find_spec, "gymnasium_robotics"
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda each: None if each == name else find_spec(each)
    )
    with pytest.raises(DeviceError, match=r"pip install 'robo-rl\[robotics\]'$"):
        GymRobotics(GymRobotics.Config(), 1)


def test_importing_the_env_imports_neither_gymnasium_robotics_nor_gymnasium():
    code = "import sys, robo_rl.env.gym_envs.gym_robotics;"
    code += "print({'gymnasium_robotics', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
