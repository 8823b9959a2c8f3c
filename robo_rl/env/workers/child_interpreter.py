"""Starts a fresh Python that serves over a socket, without the parent's ``__main__``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_BOOT = (
    "import json, sys; from importlib import import_module; sys.path[:] = json.loads(sys.argv[2]); "
    "import_module(sys.argv[3]).main(int(sys.argv[1]))"
)


def start_interpreter(module: str, fd: int, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``module.main(fd)`` in an interpreter with the parent's import path.

    Args:
        module: Name of the module.
        fd: Descriptor of its end of a socket.
        options: Options of ``subprocess.Popen``.
    """
    command = [sys.executable, "-c", _BOOT, str(fd), json.dumps(sys.path), module]
    return subprocess.Popen[bytes](
        command, pass_fds=[fd], stdin=subprocess.DEVNULL, close_fds=True, **options
    )
