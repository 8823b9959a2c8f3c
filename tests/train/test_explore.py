"""A cloned policy is given another way to explore, and stays what it was in evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.config import validate
from robo_rl.errors import ConfigError
from robo_rl.train.explore import Explore
from robo_rl.train.policies import load_policy
from robo_rl.train.stage import Context, Experiment, Report


@pytest.fixture
def explore(road: Any, tmp_path: Path):
    """Runs the stage on the road's cloned policy; gives that policy and the new one."""

    def run(**fields: Any):
        before = road.directory / "01-bc"
        report = Report.read(before)
        assert report is not None
        experiment = validate(EXPERIMENT, Experiment)
        cfg = validate(fields, Explore.Config)
        done = Explore(cfg).run(Context(experiment, tmp_path, [(before, report)]))
        return load_policy(before / "policy"), load_policy(tmp_path / done.artifacts["policy"])

    return run


def test_the_sampler_changes_and_evaluation_does_not(explore, generator):
    before, after = explore(sampler={"name": "flow_sde", "level": 0.7}, finetune_steps=1)
    assert (before.cfg.sampler.name, after.cfg.sampler.name) == ("flow_noise", "flow_sde")
    assert after.cfg.sampler.cfg.level == 0.7
    assert after.cfg.finetune_steps == 1
    assert after.cfg.net == before.cfg.net
    items = before.obs_spec.items
    obs = {name: torch.randn(5, 1, *spec.shape) for name, spec in items.items()}
    noise = torch.randn(5, before.horizon, before.act_spec.size, generator=generator)
    assert torch.equal(before.decode(obs, noise), after.decode(obs, noise))
    assert not torch.equal(
        before.sample(obs, generator.manual_seed(0)).act,
        after.sample(obs, generator.manual_seed(0)).act,
    )


def test_what_is_not_given_stays(explore):
    before, after = explore()
    assert after.cfg == before.cfg


def test_a_sampler_of_another_family_is_refused(explore):
    with pytest.raises(ConfigError, match="'ddim' reads noise"):
        explore(sampler="ddim")
