"""What a Gymnasium env's numbers depend on: who registers its id, and the classes behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from robo_rl.config.fingerprint import Fingerprint, distributions_of, versions_of

_SIMULATORS = ("gymnasium", "mujoco")


def gym_fingerprint(env_id: str, import_module: str) -> Fingerprint:
    """Of an id; the modules that register it are looked up, and not imported.

    Args:
        env_id: Name that ``gymnasium.make`` knows, ``module:name`` included.
        import_module: Module that registers it, if it is named.
    """
    modules = {*filter(None, (import_module, env_id.rpartition(":")[0])), *_made_by(env_id)}
    owners = [name for module in modules for name in distributions_of(module)]
    return Fingerprint(tuple(sorted(modules)), versions_of(sorted({*_SIMULATORS, *owners})))


def _made_by(env_id: str) -> Iterator[str]:
    """The module of an env's class, where Gymnasium knows the id by itself."""
    try:
        import gymnasium

        point: Any = gymnasium.spec(env_id.rpartition(":")[2]).entry_point
    except (ImportError, gymnasium.error.Error):
        return
    yield point.partition(":")[0] if isinstance(point, str) else point.__module__
