"""Interpreters of other simulators: made once, by their recipe, and not half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.cli.main import main
from robo_rl.core.errors import DeviceError, PluginError
from robo_rl.env.remote import interpreters
from robo_rl.env.remote.interpreters import InterpreterRecipe, create_interpreter, find_interpreter

OURS = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where interpreters are made, and no package index to make them from."""
    monkeypatch.setenv("ROBO_RL_ENVS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch):
    """Puts a recipe called ``toy`` among the others."""

    def put(pythons=(OURS,), packages=(), checks=("json",)):
        monkeypatch.setitem(
            interpreters.RECIPES, "toy", InterpreterRecipe(pythons, packages, (), checks)
        )

    return put


@pytest.mark.slow
def test_one_is_made_once_is_listed_and_made_anew_when_its_recipe_changes(
    home: Path, recipe, capsys
):
    recipe()
    said: list[str] = []
    assert find_interpreter("toy") is None
    python = create_interpreter("toy", "", said.append)
    assert find_interpreter("toy") == python
    where = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], capture_output=True)
    assert where.stdout.decode().strip() == str(home / "toy")
    assert len(said) == 1
    assert create_interpreter("toy", "", said.append) == python
    assert len(said) == 1
    assert main(["env", "list"]) == 0
    shown = capsys.readouterr().out
    assert str(python) in shown
    assert "robo-rl env create isaaclab" in shown
    recipe(checks=("json", "sqlite3"))
    assert find_interpreter("toy") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "match"),
    [
        (
            {"packages": ("package-that-nobody-has==1",)},
            "pip cannot install 'toy'.*that-nobody-has",
        ),
        ({"checks": ("nonsense",)}, "does not work.*No module named 'nonsense'"),
        ({"pythons": ("3.1",)}, r"no Python that 'toy' runs on; expected python3.1; .*--python"),
    ],
)
def test_what_fails_is_named_and_counts_as_not_made(home: Path, recipe, fields, match):
    recipe(**fields)
    with pytest.raises(DeviceError, match=match):
        create_interpreter("toy", "", print)
    assert find_interpreter("toy") is None


@pytest.mark.slow
def test_the_shim_of_a_python_that_is_not_there_is_not_taken(
    home: Path, recipe, monkeypatch: pytest.MonkeyPatch
):
    """A version manager leaves a command for each version that it ever had."""
    shim = home / "python3.99"
    shim.write_text("#!/bin/sh\necho no such version >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    recipe(pythons=("3.99",))
    with pytest.raises(DeviceError, match=r"no Python that 'toy' runs on"):
        create_interpreter("toy", "", print)
    recipe(pythons=("3.99", OURS))
    assert create_interpreter("toy", "", lambda _: None).exists()


def test_a_name_without_a_recipe_is_an_error_with_its_neighbour(home: Path, capsys):
    with pytest.raises(PluginError, match="unknown environment 'mjlap'; did you mean 'mjlab'"):
        create_interpreter("mjlap", "", print)
    assert main(["env", "create", "mjlap"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_serving_without_an_interpreter_says_how_to_make_one(home: Path, capsys):
    assert main(["serve-env", "robosuite", str(home / "socket")]) == 2
    assert "robo-rl env create robosuite" in capsys.readouterr().err
