"""What plugins import: ``robo_rl`` and ``robo_rl.testing`` hold it, and load it on check."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import robo_rl
import robo_rl.testing

ROOT = Path(__file__).parents[1]
PLUGINS = sorted([*ROOT.glob("tasks/**/*.py"), *ROOT.glob("robots/**/*.py")])
SEEN_BY_TASKS = ("api", "config", "core", "stats")


def imported_for_types(package: ModuleType) -> dict[str, str]:
    """Name → module of all that the block for type checkers imports."""
    assert package.__file__
    (block, *_) = [
        node
        for node in ast.parse(Path(package.__file__).read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def homes(package: ModuleType) -> dict[str, str]:
    return {name: module for module, names in package.MODULES.items() for name in names}


@pytest.mark.parametrize("package", [robo_rl, robo_rl.testing], ids=lambda each: each.__name__)
def test_table_all_and_types_agree_and_every_name_is_where_it_is_defined(package: ModuleType):
    assert imported_for_types(package) == homes(package)
    assert sorted(package.__all__) == sorted(homes(package))
    assert set(package.__all__) <= set(dir(package))
    for name, module in homes(package).items():
        found = getattr(package, name)
        assert found is getattr(import_module(module), name)
        assert getattr(found, "__module__", module) == module


def test_an_unknown_name_is_an_import_error():
    with pytest.raises(ImportError, match="Taks"):
        from robo_rl import Taks  # type: ignore  # noqa: F401


def test_the_package_and_light_names_load_nothing_heavy():
    code = (
        "import sys, robo_rl\nassert not {'numpy', 'pydantic', 'torch'} & set(sys.modules)\n"
        "from robo_rl import Bundle, ConfigModel, ObsSpec, Reset, Robot, Task\n"
        "assert not {'torch', 'mujoco'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tasks_and_robots_take_public_names_of_the_rooms_that_they_may_see():
    """The contract in ``pyproject.toml`` does not see through the table; this does."""
    home, taken = homes(robo_rl), set[str]()
    for path in PLUGINS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "robo_rl":
                assert node.module == "robo_rl", f"{path}: {node.module} is not public"
                taken |= {home[alias.name] for alias in node.names}
    assert len(taken) > 5
    assert {module.split(".")[1] for module in taken} <= set(SEEN_BY_TASKS)
