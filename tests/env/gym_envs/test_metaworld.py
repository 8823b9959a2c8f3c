"""MetaWorld: every task by its name, episodes that a seed alone fixes, experts that succeed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
import torch
from small_families import demonstrate, makers

from robo_rl.core.errors import ConfigError, DeviceError
from robo_rl.core.seeding import make_generator
from robo_rl.env.gym_envs.metaworld import ACT_NAMES, OBS_NAMES, MetaWorld
from robo_rl.testing.env import check_vec_env

installed = pytest.mark.skipif(
    importlib.util.find_spec("metaworld") is None, reason="Meta-World is not installed"
)
IN_DEVELOPMENT = (
    "reach-v3",
    "push-v3",
    "drawer-open-v3",
    "door-open-v3",
    "button-press-topdown-v3",
    "peg-insert-side-v3",
)


@pytest.fixture
def make():
    """Makes envs and closes them."""
    yield from makers(MetaWorld, "reach-v3")


@installed
def test_it_conforms(make):
    check_vec_env(lambda num_envs: make("push-v3", num_envs, max_episode_steps=40))


@installed
def test_specs_say_what_is_what(make, capfd):
    env = make("push-v3")
    state = env.obs_spec.items["state"]
    assert (state.shape, state.names) == ((39,), OBS_NAMES)
    assert len(set(OBS_NAMES)) == 39
    assert env.act_spec.names == ACT_NAMES
    assert env.act_spec.is_delta == (True, True, True, False)
    assert (env.act_spec.low, env.act_spec.high) == ((-1.0,) * 4, (1.0,) * 4)
    assert env.dt_s == pytest.approx(0.0125)
    assert env.max_episode_steps == 200

    obs = env.reset(0)["state"]
    row = dict(zip(OBS_NAMES, obs[0].tolist(), strict=True))
    for name in OBS_NAMES[:18]:
        assert row[f"previous_{name}"] == row[name]
    assert row["gripper_opening"] == 1.0
    assert abs(row["object1_x"]) <= 0.1
    assert 0.8 <= row["goal_y"] <= 0.9
    before, env_step = row["hand_x"], env.step(torch.tensor([[1.0, 0.0, 0.0, 1.0]] * 4))
    after = dict(zip(OBS_NAMES, env_step.obs["state"][0].tolist(), strict=True))
    assert after["hand_x"] > before == after["previous_hand_x"]
    assert after["gripper_opening"] < 1.0
    assert not any(capfd.readouterr()), "a worker printed something"


@installed
def test_an_episode_depends_on_its_seed_alone(make):
    def run(env, seed):
        obs = env.reset(seed)["state"]
        act = torch.linspace(-1, 1, 5 * 6 * 4).reshape(5, 6, 4)
        return torch.stack([obs, *(step.obs["state"] for step in env.rollout(act))])

    first, second = make("push-v3", 5, workers=1), make("push-v3", 5, workers=3)
    course = run(first, 3)
    demonstrate(first, 30)
    assert torch.equal(run(first, 3), course)
    assert torch.equal(run(second, 3), course)
    assert not torch.equal(run(second, 4)[0], course[0])
    assert not torch.equal(run(second, None)[0], course[0])


@installed
def test_envs_that_rest_change_nothing_for_the_others(make):
    def run(env, resting):
        env.reset(3)
        env.rollout(torch.zeros(5, 4, 4))  # the time limit ends every episode
        if resting is not None:
            env.rest(resting)
        return env.rollout(torch.linspace(-1, 1, 5 * 3 * 4).reshape(5, 3, 4))

    env = make("push-v3", 5, max_episode_steps=4)
    resting = torch.tensor([True, False, False, True, False])
    whole, part = run(env, None), run(env, resting)
    for expected, found in zip(whole, part, strict=True):
        assert torch.equal(found.valid, ~resting)
        assert torch.equal(found.rew[~resting], expected.rew[~resting])
        assert torch.equal(found.obs["state"][~resting], expected.obs["state"][~resting])
        assert torch.equal(found.obs["state"][resting], part[0].obs["state"][resting])
        assert not (found.terminated | found.truncated)[resting].any()
    assert run(env, None)[0].valid.all(), "a reset did not end the rest"


@installed
def test_goals_are_drawn_anew_in_every_reset(make):
    env = make("reach-v3", 20, max_episode_steps=2)
    goals = [env.reset(0)["state"][:, -3:]]
    ends = (env.rollout(torch.zeros(20, 2, 4))[-1] for _ in range(5))
    goals.extend(step.obs["state"][:, -3:] for step in ends)
    goals.append(env.reset(None)["state"][:, -3:])
    assert len(torch.cat(goals).unique(dim=0)) == 7 * 20  # not one of a fixed list of 50


@installed
def test_success_pays_once_and_ends_the_episode(make):
    env = make("reach-v3")
    env.reset(0)
    steps = demonstrate(env, 60)
    ends = torch.stack([step.terminated for step in steps])
    assert (ends.sum(0) > 0).all()
    for step in steps:
        assert torch.equal(step.rew, step.metrics["success"])
        assert torch.equal(step.rew > 0, step.terminated)
        assert not step.truncated.any()


@pytest.mark.slow
@installed
def test_success_may_leave_the_episode_go_on(make):
    env = make("reach-v3", terminate_on_success=False, max_episode_steps=70)
    env.reset(0)
    steps = demonstrate(env, 70)
    success = torch.stack([step.metrics["success"] for step in steps])
    assert (success.sum(0) > 5).all()
    paid = torch.stack([step.rew for step in steps])
    assert torch.equal(paid.sum(0), torch.ones(4))
    assert torch.equal(paid.argmax(0), success.argmax(0))
    assert not any(step.terminated.any() for step in steps)
    assert [bool(step.truncated.all()) for step in steps] == [False] * 69 + [True]


@installed
def test_the_dense_reward_is_a_cost_of_at_most_1_and_success_costs_nothing(make):
    env = make("push-v3", reward="dense")
    env.reset(0)
    steps = demonstrate(env, 100)
    rew = torch.stack([step.rew for step in steps])
    success = torch.stack([step.metrics["success"] for step in steps]) > 0
    assert success.any()
    assert torch.equal(rew[success], torch.zeros(int(success.sum())))
    assert ((rew >= -1) & (rew <= 0)).all()
    assert (rew > -1).float().mean() > 0.5


@pytest.mark.slow
@installed
@pytest.mark.parametrize("task", IN_DEVELOPMENT)
def test_the_expert_succeeds_at_least_every_other_time(make, task):
    env = make(task, 6)
    env.reset(0)
    over = torch.zeros(6, dtype=torch.bool)
    for step in demonstrate(env, 200, noise=0.1):
        over |= step.terminated
    assert over.sum() >= 3  # in peg-insert-side it takes longer than 200 steps at times


@installed
@pytest.mark.slow
def test_every_task_works_by_its_name(make):
    from metaworld.env_dict import ALL_V3_ENVIRONMENTS

    assert len(ALL_V3_ENVIRONMENTS) == 50
    for task in ALL_V3_ENVIRONMENTS:
        env = make(task, 2)
        env.obs_spec.validate_obs(env.reset(0))
        assert all(step.valid.all() for step in demonstrate(env, 2))
        env.close()


@pytest.mark.slow
@installed
def test_the_experts_noise_is_added_to_the_limited_action(make):
    env = make("push-v3", 64, workers=1)
    env.reset(0)
    best = env.expert(64, make_generator("expert", 0), 0.0).act(env.view).act
    noise = 0.3 * torch.randn(64, 4, generator=make_generator("expert", 0))
    shaky, label = env.expert(64, make_generator("expert", 0), 0.3).act(env.view)
    assert (best.abs() <= 1).all()
    assert (best.abs() == 1).any()
    assert torch.equal(shaky, (best + noise).clamp(-1, 1))
    assert torch.equal(label, best)


@pytest.mark.slow
@installed
def test_noise_that_remembers_is_as_wide_and_begins_anew_with_an_episode(make):
    env = make("push-v3", 200, workers=1, noise_correlation=0.9)
    env.reset(0)
    expert = env.expert(200, make_generator("expert", 0), 0.1)
    best = env.expert(200, make_generator("expert", 0), 0.0).act(env.view).act
    inner = best.abs() < 0.5  # where no limit cuts the noise: 0.5 is five widths of it

    def noise():
        return (expert.act(env.view).act - best)[inner]

    first, second = noise(), noise()
    expert.reset(torch.arange(200))
    third = noise()
    number = len(first)
    assert number >= 200
    assert second.std().item() == pytest.approx(0.1, abs=0.1 * 4 / (2 * number) ** 0.5)
    spread = 4 / number**0.5  # of a correlation, four standard errors
    assert torch.corrcoef(torch.stack([first, second]))[0, 1] == pytest.approx(0.9, abs=spread)
    assert torch.corrcoef(torch.stack([second, third]))[0, 1] == pytest.approx(0.0, abs=spread)


@installed
def test_an_unknown_task_is_an_error_with_the_nearest_name(make):
    with pytest.raises(
        ConfigError, match=r"Meta-World: no task 'pusch-v3'; did you mean 'push-v3'"
    ):
        make("pusch-v3")


def test_without_meta_world_the_command_is_named(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "metaworld" else find_spec(name)
    )
    command = r"pip install 'robo-rl\[bench\]' && pip install --no-deps metaworld==3\.1\.1$"
    with pytest.raises(DeviceError, match=command):
        MetaWorld(MetaWorld.Config(task="push-v3"), 1)


def test_importing_the_env_imports_neither_meta_world_nor_gymnasium():
    code = "import sys, robo_rl.env.gym_envs.metaworld;"
    code += "print({'metaworld', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.slow
@installed
def test_cameras_come_with_what_the_robot_measures(make, opengl):
    camera = {"name": "corner", "width": 36, "height": 36}
    env = make("drawer-open-v3", 2, cameras=[camera])
    obs = env.reset(0)
    assert set(obs) == {"state", "proprio", "corner_rgb"}
    assert env.obs_spec.items["proprio"].names == OBS_NAMES[:4]
    assert torch.equal(obs["proprio"], obs["state"][:, :4])
    plain = make("drawer-open-v3", 2)
    assert torch.equal(plain.reset(0)["state"], obs["state"])
    moved = demonstrate(env, 20)[-1].obs
    assert torch.equal(demonstrate(plain, 20)[-1].obs["state"], moved["state"])
    assert not torch.equal(moved["corner_rgb"], obs["corner_rgb"])
