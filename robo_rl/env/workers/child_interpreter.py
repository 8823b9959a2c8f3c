"""Starts and ends a fresh Python that serves over a socket, without the parent's ``__main__``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

_KILL_S = 2.0
_BOOT = (
    "import json, sys; from importlib import import_module; sys.path[:] = json.loads(sys.argv[2]); "
    "import_module('robo_rl.env.workers.lifeline').end_with_parent(); "
    "import_module(sys.argv[3]).main(int(sys.argv[1]))"
)


def start_interpreter(module: str, fd: int, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``module.main(fd)`` in an interpreter with the parent's import path.

    The process is killed when the parent ends; see ``lifeline``.

    Args:
        module: Name of the module.
        fd: Descriptor of its end of a socket.
        options: Options of ``subprocess.Popen``.
    """
    command = [sys.executable, "-c", _BOOT, str(fd), json.dumps(sys.path), module]
    return subprocess.Popen[bytes](
        command, pass_fds=[fd], stdin=subprocess.PIPE, close_fds=True, **options
    )


def end_interpreter(process: subprocess.Popen[bytes], deadline: float) -> None:
    """Wait for the end of a process, then send SIGKILL, which also ends a stopped one.

    Args:
        process: From ``start_interpreter``.
        deadline: Monotonic time until which to wait.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=max(0.0, deadline - time.monotonic()))
    process.kill()
    if process.stdin is not None:
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):  # the process hangs in the kernel
        process.wait(timeout=_KILL_S)
