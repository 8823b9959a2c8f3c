"""Writes the names that a simulator's adapter relies on, as the installed version defines them.

The interpreter of ``robo-rl env create isaaclab`` or ``mjlab`` runs it after a change of version:

    PYTHON tools/simulator_names.py isaaclab > tests/env/serve/isaaclab_names.json

The file holds signatures and attribute names, and no code of the simulator.
"""

from __future__ import annotations

import ast
import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MODULES = {
    "isaaclab": (
        "isaaclab.envs.manager_based_env",
        "isaaclab.envs.manager_based_rl_env",
        "isaaclab.envs.direct_rl_env",
        "isaaclab.envs.manager_based_rl_env_cfg",
        "isaaclab.envs.direct_rl_env_cfg",
        "isaaclab.managers.observation_manager",
        "isaaclab.managers.termination_manager",
        "isaaclab.app.sim_launcher",
        "isaaclab_tasks.utils.parse_cfg",
    ),
    "mjlab": (
        "mjlab.envs.manager_based_rl_env",
        "mjlab.managers.action_manager",
        "mjlab.managers.command_manager",
        "mjlab.managers.termination_manager",
        "mjlab.tasks.manipulation.mdp.commands",
        "mjlab.tasks.registry",
    ),
}


def arguments(node: ast.FunctionDef) -> list[str]:
    """Return the names of a function's arguments."""
    given = node.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def names(source: str) -> dict[str, Any]:
    """Return functions with their arguments, and attributes and metrics that a class sets."""
    functions: dict[str, list[str]] = {}
    attributes, metrics = set[str](), set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = arguments(node)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            attributes.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            own = node.value.id == "self" and isinstance(node.ctx, ast.Store)
            attributes |= {node.attr} if own else set()
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "self.metrics":
            key = node.slice
            metrics |= {str(key.value)} if isinstance(key, ast.Constant) else set()
    return {
        "functions": functions,
        "attributes": sorted(attributes),
        "metrics": sorted(metrics),
    }


def main() -> None:
    """Print the names of all modules as JSON."""
    package = sys.argv[1]
    found: dict[str, Any] = {"version": version(package)}
    for module in MODULES[package]:
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        found[module] = names(Path(spec.origin).read_text())
    json.dump(found, sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
