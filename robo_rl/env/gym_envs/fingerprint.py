"""Fingerprint of a Gymnasium env: the package that registers its id, its class, and its files."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from robo_rl.config.fingerprint import Fingerprint, distributions_of, versions_of
from robo_rl.core.errors import ConfigError, PluginError

_SIMULATORS = ("gymnasium", "mujoco")
_MODELS = (".xml", ".mjcf", ".urdf")
_HEX_DIGITS = 12
_TIMEOUT_S = 300.0
_MARK = "class module: "
_ASK = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from robo_rl.env.gym_envs.fingerprint import print_class_module; "
    "print_class_module(*sys.argv[2:])"
)


def gym_fingerprint(
    env_id: str, import_module: str, kwargs: Mapping[str, Any] = MappingProxyType({})
) -> Fingerprint:
    """Return the fingerprint of an id and its arguments.

    A file that an argument names counts as a version, ``kwargs.NAME``.

    Args:
        env_id: Name for ``gymnasium.make``, ``module:name`` included.
        import_module: Module that registers it, if one is given.
        kwargs: Further arguments of ``gymnasium.make``.

    Raises:
        PluginError: The modules take too long to import.
    """
    made_by = _class_module(env_id, import_module)
    modules = {*filter(None, (import_module, env_id.rpartition(":")[0], made_by))}
    owners = [name for module in modules for name in distributions_of(module)]
    versions = versions_of(sorted({*_SIMULATORS, *owners}))
    return Fingerprint(tuple(sorted(modules)), {**versions, **dict(_files("kwargs", kwargs))})


def print_class_module(env_id: str, import_module: str) -> None:
    """Print the module of an env's class, after the modules that register its id are imported."""
    import gymnasium

    with contextlib.redirect_stdout(sys.stderr):
        for module in filter(None, (import_module, env_id.rpartition(":")[0])):
            importlib.import_module(module)
        point: Any = gymnasium.spec(env_id.rpartition(":")[2]).entry_point
    print(_MARK + (point.partition(":")[0] if isinstance(point, str) else point.__module__))


@cache
def _class_module(env_id: str, import_module: str) -> str:
    """Return the module of an env's class; empty where the env cannot be made.

    Ids are registered in the workers, so a process of its own imports what registers this one:
    what this process has imported makes no difference.
    """
    if importlib.util.find_spec("gymnasium") is None:
        return ""
    command = [sys.executable, "-c", _ASK, json.dumps(sys.path), env_id, import_module]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        problem = f"its modules are not imported after {_TIMEOUT_S:g} s"
        raise PluginError(problem, where=f"Gymnasium env '{env_id}'") from None
    # An id or a package that is missing is an error of the env, which tells what to do.
    told = (line for line in done.stdout.splitlines() if line.startswith(_MARK))
    return "" if done.returncode else next(told, "").removeprefix(_MARK)


def _files(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the place in the arguments and a digest of each file that a string in them names."""
    if isinstance(value, str) and os.path.isfile(path := os.path.expanduser(value)):
        yield name, _model_content(path) or _content(path)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _files(f"{name}.{key}", each)
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from _files(f"{name}.{i}", each)


def _model_content(path: str) -> str:
    """Return digests of a MuJoCo model with all that it includes; empty for another file."""
    if not path.endswith(_MODELS):
        return ""
    try:
        import mujoco

        from robo_rl.env.mujoco.model_digest import model_digest

        found = model_digest(mujoco.MjSpec.from_file(path))
    except (ImportError, ValueError, ConfigError):
        return ""
    return f"scene {found.scene}, physics {found.physics}"


def _content(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:_HEX_DIGITS]
