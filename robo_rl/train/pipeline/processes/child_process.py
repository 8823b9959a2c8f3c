"""``robo-rl`` in a process that ends with the one that started it, whatever ends that.

Run as a program, with the words of a command line. Its standard input is a pipe that nobody writes
to: when the other end is gone, so is the parent, and with it this whole process group.
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
