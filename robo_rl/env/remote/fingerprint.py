"""Fingerprint of a simulator in another interpreter: the adapter and its dependencies."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

from robo_rl.config.fingerprint import Fingerprint
from robo_rl.core.errors import DeviceError
from robo_rl.env import serve
from robo_rl.env.remote import installed
from robo_rl.env.remote.server_process import server_environment

_TIMEOUT_S = 300.0


def remote_fingerprint(adapter: str, python: str | None, *, own: bool) -> Fingerprint:
    """Return the fingerprint of an adapter and of what it imports in its interpreter.

    The requirements of its imports' distributions are included; see ``installed``.

    Args:
        adapter: The name of a built-in adapter, or the path of a custom one.
        python: The interpreter; None for a running server, whose versions are unknown.
        own: Whether the adapter is a custom one.

    Raises:
        DeviceError: The interpreter does not report its packages.
    """
    path = Path(adapter) if own else Path(serve.__file__).parent / f"{adapter}_world.py"
    sources = (str(path),) if own else ()
    return Fingerprint(sources) if python is None else Fingerprint(sources, _versions(python, path))


@cache
def _versions(python: str, adapter: Path) -> dict[str, str]:
    try:
        done = subprocess.run(
            [python, installed.__file__, str(adapter)],
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
            env=server_environment(),  # what the server finds, this finds too
        )
        return dict(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        problem = "the interpreter does not say what is installed in it"
        said = getattr(error, "stderr", None)
        raise DeviceError(problem, where=python, found=said or error) from error
