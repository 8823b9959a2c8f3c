"""Adapters use names that the versions of their recipes define (``tools/simulator_names.py``)."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import robo_rl.env.serve
from robo_rl.env.remote.interpreters import RECIPES
from robo_rl.env.serve.adapters import adapters

ENVS = ("isaaclab.envs.manager_based_rl_env", "isaaclab.envs.direct_rl_env")
BASE = "isaaclab.envs.manager_based_env"
OF_GYMNASIUM = {"step", "reset", "close", "unwrapped"}


class Adapter:
    """The source of an adapter, and the names that its simulator defines."""

    def __init__(self, name: str) -> None:
        source = Path(robo_rl.env.serve.__file__ or "").parent / f"{name}_world.py"
        self.nodes = list(ast.walk(ast.parse(source.read_text())))
        self.found = json.loads((Path(__file__).parent / f"{name}_names.json").read_text())

    def attributes_of(self, *owners: str) -> set[str]:
        """Attributes that the adapter reads or calls on these expressions."""
        found: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in owners:
                found.add(node.attr)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr":
                owner, name, *_ = map(ast.unparse, node.args)
                found |= {ast.literal_eval(name)} if owner in owners else set()
        return found

    def defined(self, *modules: str) -> set[str]:
        return {
            name
            for module in modules
            for name in (
                *self.found[module]["functions"],
                *self.found[module]["attributes"],
            )
        }

    def arguments(self, module: str, function: str) -> set[str]:
        return set(self.found[module]["functions"][function])

    def call_of(self, name: str) -> ast.Call:
        """The first call of a function in the adapter."""
        return next(
            node
            for node in self.nodes
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name
        )


ISAAC, MJLAB = Adapter("isaaclab"), Adapter("mjlab")


@pytest.mark.parametrize(("name", "adapter"), [("isaaclab", ISAAC), ("mjlab", MJLAB)])
def test_the_names_are_those_of_the_recipes_version(name: str, adapter: Adapter):
    assert f"{name}=={adapter.found['version']}" in RECIPES[name].packages


@pytest.mark.parametrize("name", adapters())
def test_what_an_adapter_takes_from_this_folder_is_there(name: str):
    source = (Path(robo_rl.env.serve.__file__ or "").parent / f"{name}_world.py").read_text()
    used = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_SERVE"
    }
    assert used <= set(robo_rl.env.serve.__all__)


def test_attributes_of_isaac_labs_envs_exist_in_both_kinds():
    used = ISAAC.attributes_of("env", "self._env") - OF_GYMNASIUM
    assert {"_reset_idx", "single_action_space", "max_episode_length"} <= used
    manager_based, direct = ISAAC.defined(BASE, ENVS[0]), ISAAC.defined(ENVS[1])
    managers = {"observation_manager", "termination_manager"}  # getattr: a direct env has none
    only_direct = {"_compute_observations"}  # where there is no observation manager
    assert used - manager_based - only_direct == set()
    assert used - direct - managers == set()


@pytest.mark.parametrize("is_finite", [False, True])
def test_the_time_limit_of_a_finite_horizon_is_an_end(is_finite: bool):
    flags = np.array([True, False, True]), np.array([True, True, False])
    cfg = SimpleNamespace(is_finite_horizon=is_finite)
    terminated, truncated = robo_rl.env.serve.split_ends(cfg, *flags)
    assert terminated.tolist() == [True, is_finite, True]
    assert truncated.tolist() == [False, not is_finite, False]


def test_finite_horizons_have_their_name():
    for module in ("isaaclab.envs.manager_based_rl_env_cfg", "isaaclab.envs.direct_rl_env_cfg"):
        assert "is_finite_horizon" in ISAAC.found[module]["attributes"]
    assert "is_finite_horizon" in MJLAB.defined("mjlab.envs.manager_based_rl_env")


def test_attributes_of_isaac_labs_managers_exist():
    observations = ISAAC.attributes_of("manager", "self._observations")
    assert "_group_obs_term_history_buffer" in observations
    assert observations <= ISAAC.defined("isaaclab.managers.observation_manager")
    assert "update_history" in ISAAC.arguments("isaaclab.managers.observation_manager", "compute")
    ends = ISAAC.attributes_of("ends", "self._terminations")
    assert ends == {"active_terms", "get_term"}
    assert ends <= ISAAC.defined("isaaclab.managers.termination_manager")


def test_isaac_labs_functions_take_the_arguments_that_they_are_given():
    parse = ISAAC.arguments("isaaclab_tasks.utils.parse_cfg", "parse_env_cfg")
    assert {each.arg for each in ISAAC.call_of("parse").keywords} <= parse
    launch = ISAAC.arguments("isaaclab.app.sim_launcher", "launch_simulation")
    assert len(ISAAC.call_of("launch_simulation").args) <= len(launch)
    for module in ("isaaclab.envs.manager_based_rl_env_cfg", "isaaclab.envs.direct_rl_env_cfg"):
        assert "compute_final_obs" in ISAAC.found[module]["attributes"]
    assert "seed" in ISAAC.found["isaaclab.envs.direct_rl_env_cfg"]["attributes"]


def test_attributes_of_mjlabs_env_and_managers_exist():
    used = MJLAB.attributes_of("env", "self._env")
    assert {"reset", "step", "num_envs", "step_dt", "max_episode_length", "device"} <= used
    assert used <= MJLAB.defined("mjlab.envs.manager_based_rl_env")
    settings = {"auto_reset", "episode_length_s", "seed"}
    assert MJLAB.attributes_of("cfg") == {"scene", *settings}
    assert settings <= set(MJLAB.found["mjlab.envs.manager_based_rl_env"]["attributes"])
    for owner, manager in (
        ("ends", "termination"),
        ("commands", "command"),
        ("env.action_manager", "action"),
    ):
        names = MJLAB.attributes_of(owner)
        assert names
        assert names <= MJLAB.defined(f"mjlab.managers.{manager}_manager")
    assert "metrics" in MJLAB.defined("mjlab.managers.command_manager")
    assert "at_goal" in MJLAB.found["mjlab.tasks.manipulation.mdp.commands"]["metrics"]


def test_mjlabs_functions_take_the_arguments_that_they_are_given():
    env = "mjlab.envs.manager_based_rl_env"
    assert {"seed", "env_ids"} <= MJLAB.arguments(env, "reset")
    assert {each.arg for each in MJLAB.call_of("ManagerBasedRlEnv").keywords} <= MJLAB.arguments(
        env, "__init__"
    )
    registry = MJLAB.attributes_of("registry")
    assert registry <= MJLAB.defined("mjlab.tasks.registry")
