"""A server that forks one process per connection."""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
from contextlib import suppress
from typing import Any

from .connection import JsonConnection
from .worker import serve_connection

GRACE_S = 2.0


class WorldServer:
    """Listens on a socket and forks one process per connection; it ends with the connection.

    Args:
        path: Path of the socket, accessible to its owner only; it appears when the server is
            ready.
        log_dir: Folder for each process's output, in ``PID.log``; empty for none.
        private: Whether the server ends when its standard input closes, and removes its logs.
    """

    def __init__(self, path: str, log_dir: str, *, private: bool) -> None:
        self._path, self._log_dir, self._private = path, log_dir, private
        self._lines: dict[int, socket.socket] = {}
        self._deadlines: dict[int, float] = {}
        self._listener = _listen(path)
        self._wake, wake = os.pipe()
        for fd in (self._wake, wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        if private:
            self._poll.register(0, select.POLLIN)

    def run(self) -> None:
        """Serve until interrupted."""
        try:
            while self._turn():
                pass
        except KeyboardInterrupt:
            pass
        finally:
            if self._private:
                self._await_all()
            for pid in self._lines:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            if self._private and self._log_dir:
                shutil.rmtree(self._log_dir, ignore_errors=True)  # its owner may be dead

    def _await_all(self) -> None:
        """Wait until the processes of closed connections have ended, up to a time limit."""
        deadline = time.monotonic() + GRACE_S
        while self._lines and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.01)

    def _turn(self) -> bool:
        waits = [at - time.monotonic() for at in self._deadlines.values()]
        ready = dict(self._poll.poll(max(0.0, min(waits)) * 1000 if waits else None))
        if self._private and 0 in ready:
            return False
        for pid, sock in self._lines.items():  # before new connections reuse descriptors
            if sock.fileno() in ready:
                self._poll.unregister(sock)
                self._deadlines[pid] = time.monotonic() + GRACE_S
        if self._wake in ready:
            os.read(self._wake, 4096)
            self._reap()
        if self._listener.fileno() in ready:
            self._accept()
        for pid, at in list(self._deadlines.items()):
            if at <= time.monotonic():
                del self._deadlines[pid]
                os.kill(pid, signal.SIGKILL)
        return True

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # too many open files, or the client is gone
            return
        try:
            pid = os.fork() if _is_ours(sock) else None
        except OSError:  # too many processes
            pid = None
        if pid is None:
            sock.close()
            return
        if pid == 0:
            self._become(sock)
        self._lines[pid] = sock
        self._poll.register(sock, 0)  # reports only that the other end is gone

    def _become(self, sock: socket.socket) -> None:
        """Serve the connection in the new process, until the process exits."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C
            self._listener.close()
            for other in self._lines.values():
                other.close()
            self._redirect()
            serve_connection(
                JsonConnection(sock, timeout_s=None)
            )  # the client may read from other workers first
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _redirect(self) -> None:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        if self._log_dir:
            with open(os.path.join(self._log_dir, f"{os.getpid()}.log"), "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            out: Any = sys.stdout
            out.reconfigure(line_buffering=True)  # a crash would lose buffered output

    def _reap(self) -> None:
        for pid in list(self._lines):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                sock = self._lines.pop(pid)
                if self._deadlines.pop(pid, None) is None:
                    with suppress(KeyError):
                        self._poll.unregister(sock)
                with suppress(OSError):
                    reason = exit_description(os.waitstatus_to_exitcode(status))
                    JsonConnection(sock).send({"kind": "died", "reason": reason})
                sock.close()


def _listen(path: str) -> socket.socket:
    """Return a listening socket; its path appears once it accepts connections of its owner."""
    if os.path.exists(path):
        sys.exit(f"{path} exists")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(f"{path}~")
        listener.listen()
        os.rename(f"{path}~", path)
    except OSError as error:
        sys.exit(f"cannot listen at {path}: {error}")
    finally:
        os.umask(mask)
    return listener


def _is_ours(sock: socket.socket) -> bool:
    """Return whether the other end belongs to the same user, where the system reports it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.getuid()


def exit_description(code: int) -> str:
    """Describe how a process ended, from its exit status or its negative signal number."""
    if code >= 0:
        return f"it exited with {code}"
    names = {each.value: each.name for each in signal.Signals}  # except the real-time signals
    return f"it was killed by {names.get(-code, f'signal {-code}')}"


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(
        prog="serve_connection",
        description="Serve a simulator that cannot share the run's interpreter.",
    )
    parser.add_argument("socket", help="where to listen")
    parser.add_argument("--log-dir", default="", help="folder for what the worlds print")
    parser.add_argument("--private", action="store_true", help="end when standard input does")
    args = parser.parse_args()
    sys.argv[1:] = []  # some simulators parse them
    WorldServer(args.socket, args.log_dir, private=args.private).run()
