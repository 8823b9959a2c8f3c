"""What a module depends on is found in its source, and is all that it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl import env
from robo_rl.config.import_closure import import_closure

ENV = Path(str(env.__file__)).parent
FILES = {
    "__init__.py": "",
    "start.py": '"""Not pack.unread."""\nfrom pack.first import f\nRUN = "import pack.run as r"\n',
    "first.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pack.unread\n"
    "else:\n    import pack.after\n"
    "if not TYPE_CHECKING:\n    import pack.beside\n"
    'def f():\n    """Nor pack.unread."""\n    from .deep import thing\n',
    "run.py": "import pack.whole\n",
    "unread.py": "",
    "after.py": "",
    "deep/__init__.py": "",
    "deep/thing.py": "from ..beside import g",
    "deep/other.py": "",
    "beside.py": "import os, pack.first",
    "whole/__init__.py": "",
    "whole/part.py": "",
}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def closure(root: Path, *modules: str) -> set[str]:
    return {str(path.relative_to(root)) for path in import_closure("pack", root, modules)}


def test_imports_and_names_in_strings_count_and_docstrings_and_types_do_not(pack: Path):
    found = closure(pack, "pack.start")
    assert found == FILES.keys() - {"unread.py", "deep/other.py"}
    own = {"start.py", "run.py", "whole/__init__.py", "whole/part.py"}
    assert closure(pack, "pack.beside") == found - own
    assert closure(pack, "pack.unread", "elsewhere.start") == {"__init__.py", "unread.py"}


@pytest.mark.parametrize(
    ("module", "foreign"),
    [
        ("mujoco.sim_env", "serve/isaaclab_world.py"),
        ("mujoco.cpu_backend", "warp/backend.py"),
        ("gym_envs.env", "mujoco/sim_env.py"),
        ("gym_envs.worker", "remote/env.py"),
        ("rendering.worker", "gym_envs/env.py"),
        ("remote.env", "gym_envs/env.py"),
        ("latency_env", "mujoco/sim_env.py"),
    ],
)
def test_an_env_loads_nothing_else_of_the_envs(module: str, foreign: str):
    name = f"robo_rl.env.{module}"
    found = import_closure("robo_rl.env", ENV, [name])
    assert ENV / foreign not in found
    code = f"import {name}, sys; print(*[m.__file__ for m in sys.modules.values() if m and"
    code += " m.__name__.startswith('robo_rl.env')], sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(map(Path, done.stdout.split())) <= set(found)


def test_processes_of_an_env_count_though_they_are_started_by_name():
    envs = ["robo_rl.env.gym_envs.env", "robo_rl.env.mujoco.sim_env"]
    found = {path.relative_to(ENV).as_posix() for path in import_closure("robo_rl.env", ENV, envs)}
    assert {"gym_envs/worker.py", "rendering/worker.py"} <= found
    whole = import_closure("robo_rl.env", ENV, ["robo_rl.env.remote.env"])
    assert set(ENV.glob("serve/*.py")) <= set(whole), "a simulator's interpreter runs the folder"
