"""Looks on the way: when they are due, and from where they are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.periodic_eval import PeriodicEval


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(validate(EXPERIMENT, Experiment), tmp_path, [])


@pytest.fixture
def policy(context: Context) -> DenoisingPolicy:
    env = context.experiment.make_env(1)
    env.close()
    normalizer = Normalizer.identity(env.obs_spec, env.act_spec)
    return context.experiment.policy.build(env.obs_spec, env.act_spec, normalizer)


def test_a_look_is_due_every_so_often_and_at_the_end(context: Context, policy: DenoisingPolicy):
    probe = PeriodicEval(PeriodicEval.Config(every=3, episodes=2), context)
    due = [bool(probe.run(updates, policy, last=updates == 5)) for updates in range(1, 6)]
    assert due == [False, False, True, False, True]
    never = PeriodicEval(PeriodicEval.Config(), context)
    assert never.run(3, policy, last=True) == {}


def test_every_look_has_starts_of_its_own(context: Context, policy: DenoisingPolicy):
    probe = PeriodicEval(PeriodicEval.Config(every=1, episodes=4), context)
    found = [probe.run(updates, policy, last=False)["eval/return"] for updates in (1, 2, 1)]
    assert found[0] == found[2] != found[1]
