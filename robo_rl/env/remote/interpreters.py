"""Creates and locates Python interpreters for simulators with conflicting dependencies.

Each is a virtual environment in ``$ROBO_RL_ENVS`` or ``~/.local/share/robo-rl/envs``, with the pins
of a recipe. A note in it, written last, records the recipe.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from robo_rl.core.errors import DeviceError, PluginError
from robo_rl.core.file_lock import lock_file
from robo_rl.core.suggestions import did_you_mean

_NOTE = "robo-rl.json"
_ERROR_LINES = 5


@dataclass(frozen=True)
class InterpreterRecipe:
    """The content of an interpreter.

    Args:
        pythons: Suitable versions of Python, the preferred one first.
        packages: Packages that pip installs with their dependencies.
        no_deps_packages: Packages that pip installs without dependencies, because pins conflict
            or a dependency is not needed.
        import_checks: Modules that must be importable afterwards.
    """

    pythons: tuple[str, ...]
    packages: tuple[str, ...]
    no_deps_packages: tuple[str, ...]
    import_checks: tuple[str, ...]


RECIPES = {
    # Its requirements include window and keyboard packages; mujoco 3.10 changed mj_fullM.
    "robosuite": InterpreterRecipe(
        pythons=("3.11", "3.10", "3.12"),
        packages=(
            *("numpy==1.26.4", "mujoco==3.9.0", "scipy==1.15.3", "numba==0.62.1"),
            *("mink==0.0.5", "qpsolvers[quadprog]==4.8.1", "opencv-python-headless==4.11.0.86"),
            *("pillow", "termcolor", "tqdm"),
        ),
        no_deps_packages=("robosuite==1.5.2",),
        import_checks=("numpy", "robosuite"),
    ),
    "mjlab": InterpreterRecipe(
        pythons=("3.11", "3.12", "3.13", "3.10"),
        packages=("torch==2.13.0", "mujoco==3.11.0", "mujoco-warp==3.11.0", "mjlab==1.6.0"),
        no_deps_packages=(),
        import_checks=("numpy", "torch", "mujoco_warp"),
    ),
    # Wheels exist for this Python only.
    "isaaclab": InterpreterRecipe(
        pythons=("3.12",),
        packages=("isaaclab==3.0.0",),
        no_deps_packages=(),
        import_checks=("numpy", "torch"),
    ),
}


def interpreters_folder() -> Path:
    """Return the folder of the interpreters."""
    if given := os.environ.get("ROBO_RL_ENVS"):
        return Path(given)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "robo-rl" / "envs"


def find_interpreter(name: str) -> Path | None:
    """Return the interpreter of a recipe's current version; None if it is missing."""
    home = interpreters_folder() / name
    made = _made_by(home) == _described(RECIPES.get(name)) and _python_in(home).exists()
    return _python_in(home) if made else None


def create_interpreter(name: str, base: str, say: Callable[[str], object]) -> Path:
    """Create the interpreter of a recipe, unless it exists.

    Args:
        name: Name of the recipe.
        base: The Python to create it from; empty to search for one.
        say: Receives progress messages.

    Returns:
        The interpreter.

    Raises:
        PluginError: No such recipe.
        DeviceError: No suitable Python, or pip failed.
    """
    if name not in RECIPES:
        raise PluginError(f"unknown environment '{name}'", hint=did_you_mean(name, RECIPES))
    if (there := find_interpreter(name)) is not None:
        return there
    with _locked(name, say):
        return find_interpreter(name) or _made(name, base, say)


@contextmanager
def _locked(name: str, say: Callable[[str], object]) -> Generator[None]:
    """Lock the recipe for one process; a process that waited finds the other's result."""
    file = interpreters_folder() / f".{name}.lock"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = lock_file(file)
        except BlockingIOError:
            say(f"waiting for another process that makes {interpreters_folder() / name}")
            lock = lock_file(file, wait=True)
    except OSError as error:
        hint = "ROBO_RL_ENVS names another folder"
        raise DeviceError(
            "cannot be written", where=interpreters_folder(), found=error, hint=hint
        ) from None
    with lock:
        yield


def _made(name: str, base: str, say: Callable[[str], object]) -> Path:
    recipe, home = RECIPES[name], interpreters_folder() / name
    source = base or _find_python(name, recipe)
    shutil.rmtree(home, ignore_errors=True)
    say(f"making {home} with {source}")
    _run([source, "-m", "venv", str(home)], f"{source} makes no virtual environment")
    pip = [str(_python_in(home)), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
    for packages, extra in ((recipe.packages, []), (recipe.no_deps_packages, ["--no-deps"])):
        if packages:
            say(f"installing {' '.join(packages)}")
            _run([*pip, *extra, *packages], f"pip cannot install '{name}'")
    imports = f"import {', '.join(recipe.import_checks)}"
    _run([str(_python_in(home)), "-c", imports], f"'{name}' was installed and does not work")
    (home / _NOTE).write_text(_described(recipe) or "")
    return _python_in(home)


def _python_in(home: Path) -> Path:
    return home / "bin" / "python"


def _made_by(home: Path) -> str:
    try:
        return (home / _NOTE).read_text()
    except OSError:
        return ""


def _described(recipe: InterpreterRecipe | None) -> str | None:
    return None if recipe is None else json.dumps(asdict(recipe))


def _find_python(name: str, recipe: InterpreterRecipe) -> str:
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in recipe.pythons:
        if version == ours:
            return sys.executable
        found = shutil.which(f"python{version}")
        if found and _starts(found):
            return found
    raise DeviceError(
        f"no Python that '{name}' runs on",
        expected=" or ".join(f"python{version}" for version in recipe.pythons),
        hint="install one, or name it with --python",
    )


def _starts(python: str) -> bool:
    """Return whether a Python starts; the shim of a version manager may have none behind it."""
    done = subprocess.run([python, "-c", ""], stdin=subprocess.DEVNULL, capture_output=True)
    return done.returncode == 0


def _run(command: list[str], problem: str) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise DeviceError(problem, found=error.strerror) from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-_ERROR_LINES:]
        raise DeviceError(problem, found=" | ".join(lines) or f"exit status {done.returncode}")
