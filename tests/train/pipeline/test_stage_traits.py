"""What a stage's class says of itself is taken at its word, and held against what it leaves."""

from __future__ import annotations

import pytest

from robo_rl.config.component import Component
from robo_rl.core.errors import PluginError
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.pipeline.stage_traits import check_artifacts

REACHES, OWN = (Component("policies", name, object, None) for name in ("reaches", "own"))


class Silent(Stage):
    def run(self, context: Context) -> Report:
        return Report("silent")


class Quiet(Silent):
    makes = ("policy",)
    waivable = False


class Beside(Silent):
    makes = ("dataset",)


def test_a_policy_passes_a_stage_that_makes_none_and_is_unknown_behind_any_other():
    assert Beside.output_policy(None, REACHES, OWN) is REACHES
    assert Quiet.output_policy(None, REACHES, OWN) is None
    assert Silent.output_policy(None, REACHES, OWN) is None


@pytest.mark.parametrize("name", ["needs", "makes", "reads"])
def test_one_name_is_not_several(name: str):
    with pytest.raises(PluginError, match=f"Careless: '{name}' is a tuple of names"):
        type("Careless", (Stage,), {name: "policy"})


def test_a_stage_leaves_what_it_says():
    check_artifacts(Silent, ["anything"], "mine")
    check_artifacts(Quiet, [], "mine")
    check_artifacts(Quiet, ["policy"], "mine")
    with pytest.raises(PluginError, match=r"'mine' left .*expected policy, found dataset"):
        check_artifacts(Quiet, ["policy", "dataset"], "mine")
