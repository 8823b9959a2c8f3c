"""Stage ``variants``: the same policy in other worlds; a variant that is none is refused early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_runs import EXPERIMENT

from robo_rl.config.models import validate
from robo_rl.core.errors import ConfigError, DataError
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.pipeline.stage_digest import stage_world
from robo_rl.train.pipeline.world_digest import changed_parts, world_of
from robo_rl.train.stages.init_policy import InitPolicy
from robo_rl.train.stages.variants import EvaluateVariants

EASY = {"task": {"success_m": 10.0}}


def experiment(**variants: Any) -> Experiment:
    stages = {"scratch": {"num_envs": 2, "steps": 4}, "variants": {"of": variants}}
    return validate({**EXPERIMENT, "stages": stages, "waive": {}}, Experiment)


def test_each_variant_has_its_own_number_and_protocol(tmp_path: Path):
    """Where every place is the goal, each episode succeeds."""
    wanted = experiment(easy=EASY, same={})
    made = tmp_path / "00-scratch"
    report = InitPolicy(wanted.stages["scratch"].cfg).run(Context(wanted, made, []))
    report.write(made)
    context = Context(wanted, tmp_path / "01-variants", [(made, report)])
    numbers = EvaluateVariants(wanted.stages["variants"].cfg).run(context).numbers
    assert numbers["easy/success"]["value"] == 1.0
    assert numbers["same/success"]["value"] < 1.0
    assert numbers["same/success"]["protocol"] != numbers["easy/success"]["protocol"]
    assert numbers["easy/success"]["n"] == EXPERIMENT["eval"]["episodes"]


def test_the_worlds_of_the_variants_are_part_of_that_of_the_stage():
    wanted = experiment(easy=EASY, same={})
    own = stage_world(wanted, 0)
    found = stage_world(wanted, 1)
    assert own == world_of(wanted)
    assert {part: found[part] for part in own} == own
    assert found["other same: scene"] == own["scene"]
    moved = {**found, "other easy: robot": "another"}
    assert changed_parts(moved, found) == ["other easy: robot"]
    assert changed_parts(own, found) == []  # of a record that has no other worlds


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("odd", {"task": {"succes_m": 1.0}}, "success_m"),
        ("odd", {"policy": {"horizon": 2}}, "policy"),
        ("a b", {}, "a b"),
    ],
)
def test_what_is_no_variant_is_refused_before_anything_runs(name, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        experiment(**{name: changes})


def test_a_variant_with_other_actions_is_refused(tmp_path: Path):
    wanted, made = experiment(odd={"task": {"actions": "pose"}}), tmp_path / "00-scratch"
    report = InitPolicy(wanted.stages["scratch"].cfg).run(Context(wanted, made, []))
    context = Context(wanted, tmp_path / "01-variants", [(made, report)])
    with pytest.raises(DataError, match=r"than the changed world has: act;.*variant 'odd'"):
        EvaluateVariants(wanted.stages["variants"].cfg).run(context)
