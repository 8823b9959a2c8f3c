"""The server of a ``RemoteEnv``: a private process in another interpreter, or a running server.

A private server listens in a folder that only its owner can enter. It ends with this process,
because its standard input is a pipe that this process holds. Its output and that of its workers is
written to that folder, and errors quote it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from robo_rl.core.errors import DeviceError, PluginError
from robo_rl.env import serve
from robo_rl.env.serve.connection import JsonConnection
from robo_rl.env.serve.server import GRACE_S

_LISTEN_S, _ENDS_S = 30.0, 3.0
_LOG_LINES = 5
_LOG_CHARS = 1000
_NOT_THEIRS = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "VIRTUAL_ENV")


def server_command(python: str, *words: str) -> list[str]:
    """Return the command line of a server in an interpreter."""
    return [python, str(Path(serve.__file__).parent), *words]


def server_environment() -> dict[str, str]:
    """Return this process's environment variables, except those that lead to its packages."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_THEIRS}


class RemoteServer:
    """A server to connect to; ``RemoteServer(socket=…)`` or ``RemoteServer(python=…)``.

    Args:
        python: Interpreter for a private server.
        socket: Socket of a running server, which keeps running afterwards.

    Raises:
        DeviceError: There is no such interpreter.
        PluginError: The private server does not start, or no server listens at the socket.
    """

    def __init__(self, *, python: str = "", socket: str = "") -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="robo-rl-")) if python else None
        self._process: subprocess.Popen[bytes] | None = None
        self._python, self._socket = python, socket
        if self._folder is not None:
            self._socket = str(self._folder / "socket")
            try:
                self._start(self._folder)
            except BaseException:
                self.close()
                raise

    def connect(self) -> JsonConnection:
        """Return a new connection, which has its own worker; restart a private server that ended.

        Raises:
            PluginError: No server listens, or the connection is not permitted.
        """
        if (
            self._folder is not None
            and self._process is not None
            and self._process.poll() is not None
        ):
            self._start(self._folder)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(self._socket)
        except OSError as error:
            sock.close()
            hint = self.output_tail() or "start one with robo-rl serve-env"
            raise PluginError(
                "no server to connect to", where=self._socket, found=error.strerror, hint=hint
            ) from None
        return JsonConnection(sock)

    def output_tail(self, pid: int | None = None) -> str:
        """Return the end of the output of a worker or the server; empty without a log."""
        if self._folder is None:
            return ""
        with suppress(OSError):
            name = "server.log" if pid is None else f"{pid}.log"
            text = (self._folder / name).read_text(errors="replace")[-_LOG_CHARS:]
            return " | ".join(line for line in text.splitlines()[-_LOG_LINES:] if line.strip())
        return ""

    def close(self) -> None:
        """End a private server and all its workers; a second call does nothing."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()  # which makes it exit
            try:
                self._process.wait(GRACE_S + _ENDS_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, folder: Path) -> None:
        """Start the private server, and wait for its socket.

        Raises:
            DeviceError: There is no such interpreter.
            PluginError: The process ended first, or takes too long.
        """
        with suppress(FileNotFoundError):
            os.unlink(self._socket)
        self._process = _popen(self._python, folder)
        deadline = time.monotonic() + _LISTEN_S
        while not os.path.exists(self._socket):
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                found = "nothing yet" if code is None else f"exit status {code}"
                words = self.output_tail()
                raise PluginError(
                    "the interpreter does not run our server",
                    where=self._python,
                    expected="Python 3.10 or later",
                    found=f"{found}: {words}" if words else found,
                )
            time.sleep(0.005)


def _popen(python: str, folder: Path) -> subprocess.Popen[bytes]:
    command = server_command(python, str(folder / "socket"), "--private", "--log-dir", str(folder))
    try:
        with (folder / "server.log").open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=server_environment(),
                start_new_session=True,  # Ctrl-C is handled by this process
            )
    except OSError as error:
        raise DeviceError(
            "no such interpreter", where=python, found=error.strerror, hint="see robo-rl env list"
        ) from None
