"""What a stage's class says of itself is taken at its word, and held against what it leaves."""

from __future__ import annotations

import pytest

from robo_rl.core.errors import PluginError
from robo_rl.train.pipeline.stage_traits import Traits, check_artifacts, traits


class Silent:
    pass


class Quiet:
    makes = ("policy",)
    waivable = False


def test_what_is_not_said_is_the_default():
    assert traits(Silent) == Traits()
    assert traits(Quiet) == Traits(makes=("policy",), waivable=False)


@pytest.mark.parametrize("name", ["needs", "makes", "reads"])
def test_one_name_is_not_several(name: str):
    cls = type("Careless", (), {name: "policy"})
    with pytest.raises(PluginError, match=f"Careless: '{name}' is a tuple of names"):
        traits(cls)


def test_a_stage_leaves_what_it_says():
    check_artifacts(Silent, ["anything"], "mine")
    check_artifacts(Quiet, [], "mine")
    check_artifacts(Quiet, ["policy"], "mine")
    with pytest.raises(PluginError, match=r"'mine' left .*expected policy, found dataset"):
        check_artifacts(Quiet, ["policy", "dataset"], "mine")
