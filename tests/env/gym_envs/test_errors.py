"""GymEnv: what an env does wrong, or is asked for wrongly, is one typed error."""

from __future__ import annotations

import pytest
import torch
from small_gym import NAN, NAN_REWARD, OKAY, RAISE, WRONG_SHAPE, faults

from robo_rl.core.errors import ConfigError, PluginError, SpecError

gymnasium = pytest.importorskip("gymnasium")


def test_an_env_that_raises_says_so_and_can_be_reset(make):
    env = make()
    env.reset(0)
    with pytest.raises(PluginError, match=r"'Faults-v0', env 1, step.*ArithmeticError.*in a knot"):
        env.step(faults(OKAY, RAISE, OKAY, OKAY)[:, 0])
    with pytest.raises(PluginError, match="reset it first"):
        env.step(torch.zeros(4, 2))
    assert torch.equal(env.reset(0)["state"][:, 1], torch.zeros(4))
    assert env.step(torch.zeros(4, 2)).valid.all()
    assert env.worker_restarts == 0


def test_a_world_that_is_not_finite_is_cut_and_reset_alone(make):
    env = make()
    before = env.reset(0)
    chunk = env.rollout(faults(OKAY, OKAY, NAN, OKAY, steps=3))
    assert chunk[0].valid.tolist() == [True, True, False, True]
    assert chunk[0].truncated.tolist() == [False, False, True, False]
    assert torch.equal(chunk[0].next_obs["state"][2], before["state"][2])
    assert [s.valid[2].item() for s in chunk] == [False] * 3
    assert chunk[2].obs["state"][:, 1].tolist() == [3.0, 3.0, 0.0, 3.0]
    assert all(torch.isfinite(s.obs["state"]).all() for s in chunk)


def test_a_reward_that_is_not_finite_is_nobodys_and_no_success(make):
    env = make()
    env.reset(0)
    step = env.step(faults(OKAY, NAN_REWARD, OKAY, OKAY)[:, 0])
    assert step.valid.tolist() == [True, False, True, True]
    assert step.truncated.tolist() == [False, True, False, False]
    assert float(step.rew[1]) == float(step.metrics["success"][1]) == 0.0
    assert bool(step.rew.isfinite().all())


def test_an_observation_that_breaks_its_space_is_refused(make):
    env = make()
    env.reset(0)
    with pytest.raises(SpecError, match=r"obs 'state'.*expected \(2,\) float32, found \(1,\)"):
        env.step(faults(WRONG_SHAPE, OKAY, OKAY, OKAY)[:, 0])


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"env_id": "Pendulm-v1"}, PluginError, "Did you mean: `Pendulum`"),
        ({"env_id": "CartPole-v1"}, SpecError, r"action space.*Discrete\(2\)"),
        ({"env_id": "NoLimit-v0"}, ConfigError, "max_episode_steps"),
        ({"kwargs": {"fail_on_make": True}}, PluginError, "RuntimeError: cannot be made"),
        ({"import_module": "no_such_module"}, PluginError, "no_such_module"),
    ],
)
def test_an_env_that_cannot_be_used_is_a_typed_error(make, fields, error, says):
    with pytest.raises(error, match=says):
        make(workers=1, num_envs=1, **fields)


def test_an_env_that_cannot_be_reset_is_a_typed_error(make):
    env = make(workers=1, num_envs=1, kwargs={"fail_on_reset": True})
    with pytest.raises(PluginError, match=r"env 0, reset.*cannot be reset"):
        env.reset(0)


@pytest.mark.parametrize("shape", [(3, 1, 2), (4, 1, 3), (4, 0, 2), (4, 2)])
def test_actions_of_another_shape_are_refused(make, shape):
    env = make(workers=1)
    env.reset(0)
    with pytest.raises(SpecError, match="act"):
        env.rollout(torch.zeros(shape))
