"""Envs that draw from ``random`` and ``numpy.random`` do not see what other envs draw."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from robo_rl.env.workers.global_generators import GlobalGenerators

gymnasium = pytest.importorskip("gymnasium")

PHASES = [("reset",), ("step",), ("reset", "step")]


@pytest.mark.parametrize("draws", PHASES, ids="+".join)
@pytest.mark.parametrize("steps", [1, 3])
def test_starts_and_episodes_do_not_depend_on_the_number_of_workers(make, draws, steps):
    def course(workers):
        env = make("Globals-v0", workers=workers, kwargs={"draws": draws})
        seen = [env.reset(3)["state"]]
        for _ in range(12):
            chunk = env.rollout(torch.zeros(4, steps, 1))
            seen += [obs["state"] for step in chunk for obs in (step.next_obs, step.obs)]
        return torch.stack(seen)

    alone = course(4)
    assert torch.equal(alone, course(1))
    assert torch.equal(alone, course(2))
    assert len(alone.unique()) > 4


@pytest.mark.parametrize("workers", [1, 3])
def test_the_envs_of_a_group_begin_and_go_on_alike(make, workers):
    env = make("Globals-v0", workers=workers)
    seen = [env.reset_groups(2, 5)["state"]]
    seen += [env.step(torch.zeros(4, 1)).next_obs["state"] for _ in range(4)]
    for state in seen:
        assert torch.equal(state[::2], state[1::2])
        assert not torch.equal(state[0], state[2])


def test_an_env_that_draws_nothing_in_its_first_episode_is_switched_no_more():
    streams = GlobalGenerators(2)
    for env in (0, 1):
        streams.seed(env, env)
        for phase in ("reset", "step"):
            streams.begin(env, phase)
            if (env, phase) == (1, "step"):
                np.random.normal()
            streams.end(env, phase)
        streams.end_episode(env)
    assert streams._switched == {"reset": set(), "step": {1}}


def test_the_second_normal_number_of_a_pair_stays_with_its_env():
    streams, drawn = GlobalGenerators(2), {0: [], 1: []}
    for env in drawn:
        streams.seed(env, 7)
    for _ in range(3):
        for env, numbers in drawn.items():
            streams.begin(env, "step")
            numbers += [np.random.normal(), random.gauss(0.0, 1.0)]
            streams.end(env, "step")
    assert drawn[0] == drawn[1]
