"""The rooms below all others load nothing heavy: a robot's computer has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIGHT = ("core", "config", "stats", "language", "bundle", "api")
ON_DEMAND = {"robo_rl.api.robot_mjcf"}  # imported by Robot.spec when it is called


def modules(room: str) -> set[str]:
    paths = [
        path.relative_to(ROOT).with_suffix("") for path in (ROOT / "robo_rl" / room).glob("*.py")
    ]
    return {".".join(path.parts) for path in paths if path.name != "__init__"}


def test_the_lower_rooms_load_neither_torch_nor_mujoco():
    light = {module for room in LIGHT for module in modules(room)} - ON_DEMAND
    assert len(light) > 20
    code = "\n".join(f"import {name}" for name in sorted(light))
    code += "\nimport sys\nassert not {'torch', 'mujoco'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MOST = 14
"""Modules of the largest folder; it may fall, and not rise."""


def test_a_room_has_few_modules():
    packages = ("robo_rl", "tasks/robo_rl_tasks", "robots/robo_rl_robots", "sim2real")
    found: dict[str, int] = {}
    for package in packages:
        for path in (ROOT / package).rglob("*.py"):
            if path.name != "__init__.py":
                folder = path.parent.relative_to(ROOT).as_posix()
                found[folder] = found.get(folder, 0) + 1
    assert len(found) > 40
    assert max(found.values()) == MOST, {k: v for k, v in found.items() if v >= MOST}
