"""The floors: every module stands on one, and the lower ones load nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
LIGHT = 3  # floors 0 to 2
ON_DEMAND = {"robo_rl.robot_mjcf"}  # imported by Robot.spec when it is called


def floors() -> list[list[str]]:
    """Modules of each floor of the import contract, lowest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in settings["contracts"] if c["type"] == "layers")
    return [[name.strip(" ()\n") for name in layer.split(":")] for layer in reversed(layers)]


def modules() -> list[str]:
    paths = [p.relative_to(ROOT).with_suffix("") for p in sorted((ROOT / "robo_rl").rglob("*.py"))]
    return [".".join(path.parts) for path in paths if path.name != "__init__"]


def test_every_module_stands_on_a_floor():
    named = [name for floor in floors() for name in floor]
    lost = [m for m in modules() if not any(m == n or m.startswith(f"{n}.") for n in named)]
    assert lost == []


def test_the_lower_floors_load_neither_torch_nor_mujoco():
    light = {name for floor in floors()[:LIGHT] for name in floor} & set(modules()) - ON_DEMAND
    code = "\n".join(f"import {name}" for name in sorted(light))
    code += "\nimport sys\nassert not {'torch', 'mujoco'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
