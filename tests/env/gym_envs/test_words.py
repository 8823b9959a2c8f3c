"""GymEnv: labels are booleans, numbers fit float32, names and scalars become arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.data.store.schema import StoreSchema

gymnasium = pytest.importorskip("gymnasium")


@pytest.fixture
def stepped(make):
    """The env's first step."""

    def _stepped(**kwargs):
        env = make("Words-v0", num_envs=1, workers=1, kwargs=kwargs)
        env.reset(0)
        return env.step(torch.zeros(1, 1))

    return _stepped


BAD = {
    "success": ["False", np.nan, None, np.array([True]), [0], 0.5, 2],
    "is_success": ["true", None],
    "terminated": [None, "False", np.array([True]), 0.5],
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, marks=[pytest.mark.slow] * (index > 0))
        for key, values in BAD.items()
        for index, value in enumerate(values)
    ],
)
def test_a_label_that_is_no_boolean_is_refused(stepped, key, value):
    with pytest.raises(SpecError, match=f"env 0, step: .*{key}.* is no boolean; expected True or"):
        stepped(**{key: value})


_RARELY = [pytest.param(yes, marks=pytest.mark.slow) for yes in (np.True_, 1, 1.0)]


@pytest.mark.parametrize("yes", [True, *_RARELY, np.float32(1)])
def test_a_boolean_or_exactly_one_is_a_success(stepped, yes):
    assert stepped(success=yes).success.tolist() == [True]
    assert stepped(is_success=yes).success.tolist() == [True]
    assert stepped(success=type(yes)(0), is_success=yes).success.tolist() == [False]


@pytest.mark.parametrize("rew", [None, "1.0", np.array([1.0]), [1.0]])
def test_a_reward_that_is_no_number_is_refused(stepped, rew):
    with pytest.raises(SpecError, match="env 0, step: the reward; expected a number, found"):
        stepped(rew=rew)


def test_spaces_without_elements_are_refused_when_the_env_is_made(make):
    with pytest.raises(SpecError, match=r"observation 'a' is not supported; expected a Box with"):
        make("Words-v0", num_envs=1, workers=1, kwargs={"shape": (0,)})


@pytest.mark.parametrize("huge", [{"rew": 1e300}, {"rew": -1e39}, {"obs": 1e300}])
def test_what_is_too_large_for_float32_is_no_transition(stepped, huge):
    step = stepped(success=True, **huge)
    assert (step.valid.tolist(), step.truncated.tolist()) == ([False], [True])
    assert (step.rew.tolist(), step.success.tolist()) == ([0.0], [False])
    assert bool(step.next_obs["a"].isfinite().all())


def test_a_scalar_has_one_element(make):
    env = make("Words-v0", num_envs=2, workers=1)
    assert env.obs_spec.items["a"].shape == env.act_spec.shape == (1,)
    assert (env.obs_spec.items["a"].low, env.act_spec.high) == ((-9.0,), (1.0,))
    assert env.reset(0)["a"].tolist() == [[0.5], [0.5]]


def test_characters_that_cannot_name_an_array_become_underscores(make):
    env = make("Words-v0", num_envs=1, workers=1, kwargs={"names": ["agent/pos", "a.b", "-c"]})
    assert set(env.obs_spec.items) == {"agent_pos", "a_b", "_c"}
    assert set(env.reset(0)) == set(env.obs_spec.items)
    StoreSchema(obs_spec=env.obs_spec, act_spec=env.act_spec)


@pytest.mark.parametrize("names", [["a/b", "a.b"], ["", "a"], ["a" * 101]])
def test_names_that_cannot_be_told_apart_are_refused_when_the_env_is_made(make, names):
    with pytest.raises(ConfigError, match=r"'Words-v0', make: names of observations.*a wrapper"):
        make("Words-v0", num_envs=1, workers=1, kwargs={"names": names})
