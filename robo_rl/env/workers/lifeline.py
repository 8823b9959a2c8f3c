"""Ends a worker process with its parent, also where the parent is killed and the worker hangs.

The standard input of a worker is a pipe to which the parent never writes. When the parent ends,
however it does, the kernel closes the pipe and sends the worker SIGKILL. This needs no thread of
the worker, so an env that hangs in C and holds the interpreter's lock ends too. It depends on the
parent as a whole; PR_SET_PDEATHSIG would depend on the thread that started the worker.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading
from typing import Any


def end_with_parent() -> None:
    """Arrange that this process is killed when its standard input closes.

    Standard input is empty afterwards, so that nothing in this process waits for the parent's
    input. Where the kernel cannot choose the signal, as on macOS, a thread waits for the end
    instead, and a hang that holds the interpreter's lock delays it.
    """
    lifeline = os.dup(0)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    kernel: Any = fcntl
    if not hasattr(fcntl, "F_SETSIG"):
        threading.Thread(target=_await_end, args=(lifeline,), daemon=True).start()
        return
    fcntl.fcntl(lifeline, kernel.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    ended = select.poll()
    ended.register(lifeline, 0)  # reports only that the other end is closed
    if ended.poll(0):  # before the signal was arranged
        os.kill(os.getpid(), signal.SIGKILL)


def _await_end(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGKILL)
