"""Fingerprint of a Gymnasium env: the package that registers its id, and its classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from robo_rl.config.fingerprint import Fingerprint, distributions_of, versions_of

_SIMULATORS = ("gymnasium", "mujoco")


def gym_fingerprint(env_id: str, import_module: str) -> Fingerprint:
    """Return the fingerprint of an id; the registering modules are located, not imported.

    Args:
        env_id: Name for ``gymnasium.make``, ``module:name`` included.
        import_module: Module that registers it, if one is given.
    """
    modules = {*filter(None, (import_module, env_id.rpartition(":")[0])), *_made_by(env_id)}
    owners = [name for module in modules for name in distributions_of(module)]
    return Fingerprint(tuple(sorted(modules)), versions_of(sorted({*_SIMULATORS, *owners})))


def _made_by(env_id: str) -> Iterator[str]:
    """Yield the module of an env's class, where Gymnasium itself registers the id."""
    try:
        import gymnasium
    except ImportError:  # the env says which extra has it
        return
    try:
        point: Any = gymnasium.spec(env_id.rpartition(":")[2]).entry_point
    except gymnasium.error.Error:
        return
    yield point.partition(":")[0] if isinstance(point, str) else point.__module__
