"""Runs ``robo-rl`` in a process that ends with its parent, even if the parent is killed.

The module is a program that takes the words of a command line. Its standard input is a pipe to the
parent without data. When the pipe closes, the parent is gone, and the process group is killed.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def _end_with_parent() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["robo-rl", *sys.argv[1:]]
    runpy.run_module("robo_rl", run_name="__main__", alter_sys=True)
