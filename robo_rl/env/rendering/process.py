"""One rendering process, from the parent's side: start, request, wait, end."""

from __future__ import annotations

import math
import socket
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from robo_rl.env.rendering import offscreen
from robo_rl.env.rendering.worker import RenderJob
from robo_rl.env.serve.server import exit_description
from robo_rl.env.workers.awake_watch import AwakeWatch
from robo_rl.env.workers.channel import PickleConnection
from robo_rl.env.workers.child_interpreter import end_interpreter, start_interpreter

_MESSAGE_S = 10.0


class RenderProcessLostError(Exception):
    """A process died, hangs or failed; the message gives the reason."""


class RenderProcess:
    """A fresh interpreter with the parent's import path, without the parent's ``__main__``.

    Args:
        kind: OpenGL library.
        job: First message to the process.
        memory: Descriptor of the shared memory.
    """

    def __init__(self, kind: str, job: RenderJob, memory: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel = PickleConnection(ours, _MESSAGE_S)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed in end()
        # Mesa's own threads would compete with the other processes for the cores.
        env = {"LP_NUM_THREADS": "0", **offscreen.opengl_environment(kind)}
        with theirs:
            self._process = start_interpreter(
                "robo_rl.env.rendering.worker",
                theirs.fileno(),
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=self._said,
            )
        with suppress(OSError):  # the wait for its answer detects a dead process
            self._channel.send(job, memory)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def request(self, number: int, start: int, stop: int) -> None:
        """Request images of the rows from start to stop."""
        with suppress(OSError):
            self._channel.send((number, start, stop))

    def wait(self, number: int, limit_s: float, progress: Callable[[], int]) -> None:
        """Wait for the answer to a request; every rendered row extends the time.

        Time limits do not count while all processes are suspended; see ``AwakeWatch``.

        Raises:
            RenderProcessLostError: The process died, hangs or failed.
        """
        watch, deadline_s, seen = AwakeWatch(), limit_s, progress()
        while not watch.wait(partial(self._has_answered, number), limit_s / 4):
            before, seen = seen, progress()
            if seen != before:
                deadline_s = watch.elapsed_s + limit_s
            elif watch.elapsed_s >= deadline_s:
                raise RenderProcessLostError(f"no picture for {limit_s:g} s")

    def close(self) -> None:
        """Close its channel, which makes it exit."""
        self._channel.close()

    def terminate(self, deadline: float = -math.inf) -> None:
        """Wait for its end until the deadline, then send SIGKILL, which also ends a stopped one."""
        end_interpreter(self._process, deadline)
        self._channel.close()
        self._said.close()

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
        """Return why the process ended, after its channel has closed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)
        code = self._process.returncode
        if code is not None and code < 0:
            return exit_description(code)
        self._said.seek(0)
        said = self._said.read().decode(errors="replace")
        return offscreen.last_line(said, f"it exited with {code}")
