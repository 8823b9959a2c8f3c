"""A cloned policy is given another way to explore, and stays what it was in evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT

from robo_rl.config.component import component
from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.rl.exploration.exploring_policy import (
    ExplorationConfig,
    exploration_policy,
    with_exploration,
)


@pytest.fixture
def cloned(road: Any) -> DenoisingPolicy:
    return load_policy(road.directory / "01-bc" / "policy")


def test_the_sampler_changes_and_evaluation_does_not(cloned, generator):
    cfg = validate(
        {"sampler": {"name": "flow_sde", "noise_level": 0.7}, "finetune_steps": 1},
        ExplorationConfig,
    )
    changed = with_exploration(cloned, cfg, seed=0)
    assert (cloned.cfg.sampler.name, changed.cfg.sampler.name) == ("flow_noise", "flow_sde")
    assert changed.cfg.sampler.cfg.noise_level == 0.7
    assert changed.trainable_steps.tolist() == [False, True]
    assert changed.cfg.net == cloned.cfg.net
    items = cloned.obs_spec.items
    obs = {name: torch.randn(5, 1, *spec.shape) for name, spec in items.items()}
    noise = torch.randn(5, cloned.horizon, cloned.act_spec.size, generator=generator)
    assert torch.equal(cloned.decode(obs, noise), changed.decode(obs, noise))
    drawn = [each.sample(obs, generator.manual_seed(0)).act for each in (cloned, changed)]
    assert not torch.equal(*drawn)


def test_neither_shares_a_parameter_with_the_other(cloned):
    changed = with_exploration(cloned, validate({"sampler": "flow_sde"}, ExplorationConfig), seed=0)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.fill_(0.0)
    assert any(bool(parameter.any()) for parameter in cloned.parameters())


def test_the_copy_that_the_first_steps_run_on_comes_along(cloned, generator):
    cfg = validate({"finetune_steps": 1}, ExplorationConfig)
    tuned = with_exploration(cloned, cfg, seed=0)
    tuned.freeze_reference()
    with torch.no_grad():
        for parameter in tuned.net.parameters():
            parameter += 0.05
    wider = validate({"sampler": {"name": "flow_noise", "std_max": 0.4}}, ExplorationConfig)
    changed = with_exploration(tuned, wider, seed=0)
    items = cloned.obs_spec.items
    obs = {name: torch.randn(5, 1, *spec.shape) for name, spec in items.items()}
    noise = torch.randn(5, cloned.horizon, cloned.act_spec.size, generator=generator)
    assert torch.equal(tuned.decode(obs, noise), changed.decode(obs, noise))
    with pytest.raises(ConfigError, match=r"other steps .* expected 1, found 0"):
        with_exploration(tuned, validate({"finetune_steps": 0}, ExplorationConfig), seed=0)


def test_what_is_not_given_stays(cloned):
    assert with_exploration(cloned, ExplorationConfig(), seed=0) is cloned
    same = {"sampler": cloned.cfg.model_dump(mode="json")["sampler"], "finetune_steps": 0}
    assert with_exploration(cloned, validate(same, ExplorationConfig), seed=0) is cloned


def test_noise_that_was_learnt_stays_where_its_sampler_does(cloned):
    learnt = {"sampler": {"name": "flow_noise", "std_min": 0.1, "std_max": 0.4}}
    tuned = with_exploration(cloned, validate(learnt, ExplorationConfig), seed=0)
    assert tuned.noise_head is not None
    with torch.no_grad():
        for parameter in tuned.noise_head.parameters():
            parameter += 0.05
    changed = with_exploration(tuned, validate({"finetune_steps": 1}, ExplorationConfig), seed=3)
    assert changed.noise_head is not None
    pairs = zip(changed.noise_head.parameters(), tuned.noise_head.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_sampler_of_another_family_is_refused(cloned):
    with pytest.raises(ConfigError, match="'ddim' expects noise"):
        with_exploration(cloned, validate({"sampler": "ddim"}, ExplorationConfig), seed=0)


def test_the_stage_takes_it_as_a_setting():
    stages = {**EXPERIMENT["stages"], "online": {"exploration": {"sampler": "flow_sde"}}}
    found = validate({**EXPERIMENT, "stages": stages}, Experiment).stages["online"].cfg
    assert found.exploration.sampler.name == "flow_sde"
    assert found.exploration.finetune_steps is None


@pytest.mark.parametrize(
    ("sampler", "exploring", "field"),
    [
        ({"name": "ddim", "clip": 3.0}, {"name": "ddim", "std_min": 0.05}, "clip"),
        ({"name": "ddim"}, {"name": "ddpm"}, "train_steps"),
        ({"name": "ddim", "clip": 3.0}, {"name": "ddim", "std_min": 0.05, "clip": 3.0}, ""),
        ({"name": "ddpm"}, {"name": "ddpm", "std_min": 0.05}, ""),
    ],
)
def test_a_sampler_that_would_change_the_evaluated_policy_is_refused(sampler, exploring, field):
    """Evaluation of a diffusion policy has the schedule and the clip of its sampler."""
    made = component("policies").make({"name": "diffusion", "num_steps": 10, "sampler": sampler})
    cfg = validate({"sampler": exploring}, ExplorationConfig)
    if not field:
        found = exploration_policy(made, cfg)
        assert found is not None
        assert found.cfg.sampler.cfg.std_min == 0.05
        return
    with pytest.raises(ConfigError, match=f"exploration.sampler, {field}: .*change the evaluated"):
        exploration_policy(made, cfg)
