"""The adapter of Isaac Lab uses names that isaaclab 3.0.0 defines (``tools/isaac_names.py``)."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import robo_rl.env.serve
from robo_rl.env.remote.interpreters import RECIPES

SOURCE = Path(robo_rl.env.serve.__file__ or "").parent / "isaaclab_world.py"
FOUND = json.loads((Path(__file__).parent / "isaaclab_names.json").read_text())
ENVS = ("isaaclab.envs.manager_based_rl_env", "isaaclab.envs.direct_rl_env")
BASE = "isaaclab.envs.manager_based_env"
OF_GYMNASIUM = {"step", "reset", "close", "unwrapped"}


def attributes_of(*owners: str) -> set[str]:
    """Attributes that the adapter reads or calls on these expressions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in owners:
            found.add(node.attr)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
            owner, name, *_ = map(ast.unparse, node.args)
            found |= {ast.literal_eval(name)} if owner in owners else set()
    return found


def defined(*modules: str) -> set[str]:
    return {
        name
        for module in modules
        for name in (*FOUND[module]["functions"], *FOUND[module]["attributes"])
    }


def call_of(name: str) -> ast.Call:
    """The only call of a function in the adapter."""
    (call,) = [
        node
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name
    ]
    return call


def test_the_names_are_those_of_the_recipes_version():
    assert RECIPES["isaaclab"].packages == (f"isaaclab=={FOUND['version']}",)


def test_attributes_of_an_env_exist_in_both_kinds():
    used = attributes_of("env", "self._env") - OF_GYMNASIUM
    assert {"_reset_idx", "single_action_space", "max_episode_length"} <= used
    manager_based, direct = defined(BASE, ENVS[0]), defined(ENVS[1])
    managers = {"observation_manager", "termination_manager"}  # getattr: a direct env has none
    only_direct = {"_compute_observations"}  # where there is no observation manager
    assert used - manager_based - only_direct == set()
    assert used - direct - managers == set()


def test_attributes_of_the_managers_exist():
    observations = attributes_of("manager", "self._observations")
    assert "_group_obs_term_history_buffer" in observations
    assert observations <= defined("isaaclab.managers.observation_manager")
    assert (
        "update_history" in FOUND["isaaclab.managers.observation_manager"]["functions"]["compute"]
    )
    ends = attributes_of("ends", "self._terminations")
    assert ends == {"active_terms", "get_term"}
    assert ends <= defined("isaaclab.managers.termination_manager")


def test_functions_take_the_arguments_that_they_are_given():
    parse = FOUND["isaaclab_tasks.utils.parse_cfg"]["functions"]["parse_env_cfg"]
    assert {each.arg for each in call_of("parse").keywords} <= set(parse)
    launch = FOUND["isaaclab.app.sim_launcher"]["functions"]["launch_simulation"]
    call = call_of("launch_simulation")
    assert len(call.args) <= len(launch)
    for module in ("isaaclab.envs.manager_based_rl_env_cfg", "isaaclab.envs.direct_rl_env_cfg"):
        assert "compute_final_obs" in FOUND[module]["attributes"]
