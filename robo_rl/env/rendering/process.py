"""One process that draws, from the side of who asks: started, asked, awaited, ended."""

from __future__ import annotations

import math
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress

from robo_rl.env.rendering import offscreen
from robo_rl.env.rendering.worker import RenderJob
from robo_rl.env.serve.server import exit_description
from robo_rl.env.workers.channel import PickleConnection
from robo_rl.env.workers.child_interpreter import start_interpreter

_CLOSE_GRACE_S = 2.0
_MESSAGE_S = 10.0


class RenderProcessLostError(Exception):
    """A process died, hangs or failed, and how."""


class RenderProcess:
    """A fresh interpreter with our import path: nothing of our state, our ``__main__`` included.

    Args:
        kind: Of OpenGL.
        job: What it is told first.
        memory: Descriptor of the memory that it shares.
    """

    def __init__(self, kind: str, job: RenderJob, memory: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel = PickleConnection(ours, _MESSAGE_S)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed in end()
        # Threads of Mesa's own would share the cores with the other processes.
        env = {"LP_NUM_THREADS": "0", **offscreen.opengl_environment(kind)}
        with theirs:
            self._process = start_interpreter(
                "robo_rl.env.rendering.worker",
                theirs.fileno(),
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
            )
        with suppress(OSError):  # one that is dead is noticed when its answer is awaited
            self._channel.send(job, memory)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def request(self, number: int, start: int, stop: int) -> None:
        """Have it draw the rows from start to stop."""
        with suppress(OSError):
            self._channel.send((number, start, stop))

    def wait(self, number: int, limit_s: float, progress: Callable[[], int]) -> None:
        """Wait for its answer to a number; every row that it draws extends the time.

        Time is counted in waits that were in vain, for a clock goes on while all of us are
        suspended.

        Raises:
            RenderProcessLostError: It died, hangs or failed.
        """
        patience_s = min(1.0, limit_s / 4)
        seen, silent_s = progress(), 0.0
        while not self._has_answered(number, patience_s):
            before, seen = seen, progress()
            silent_s = silent_s + patience_s if seen == before else 0.0
            if silent_s >= limit_s:
                raise RenderProcessLostError(f"no picture for {limit_s:g} s")

    def close(self) -> None:
        """Tell it to end."""
        self._channel.close()

    def terminate(self, deadline: float = -math.inf) -> None:
        """See to it that it has ended by then, by SIGKILL if need be: that ends a stopped one."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=max(0.0, deadline - time.monotonic()))
        self._process.kill()
        self._channel.close()
        self._said.close()
        with suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel
            self._process.wait(timeout=_CLOSE_GRACE_S)

    def _has_answered(self, number: int, patience_s: float) -> bool:
        try:
            if not self._channel.poll(patience_s):
                return False
            (answered, problem), _ = self._channel.receive()
        except (EOFError, OSError):
            raise RenderProcessLostError(self._fate()) from None
        if answered == number and problem is not None:
            raise RenderProcessLostError(problem)
        return answered == number

    def _fate(self) -> str:
        """What became of it, whose channel is closed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        code = self._process.returncode
        if code is not None and code < 0:
            return exit_description(code)
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        return offscreen.last_line(said, f"it exited with {code}")
