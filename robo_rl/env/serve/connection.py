"""One end of a connection between a run and a simulator's interpreter: framed JSON.

A frame is its length in 4 bytes, then a JSON object with a ``kind``.
"""

from __future__ import annotations

import json
import math
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

PROTOCOL = 1
MAX_FRAME = 1 << 20
_HEADER = struct.Struct("!I")
_MESSAGE_S = 10.0


class RequestError(Exception):
    """An error that is reported to the other side.

    Args:
        code: ``plugin``, ``spec``, ``config`` or ``device``: the kind of error that it becomes.
        problem: One clause.
        details: Any of ``expected``, ``found``, ``hint``, ``trace``.
    """

    def __init__(self, code: str, problem: str, **details: Any) -> None:
        super().__init__(problem)
        self.message = {"kind": "error", "code": code, "problem": problem}
        self.message.update({name: str(text) for name, text in details.items()})


class JsonConnection:
    """One end of a connection that carries JSON objects; several threads may send.

    Args:
        sock: Connected stream socket of the Unix family; closed with the connection.
        timeout_s: Time limit of one message once it has begun; None for no limit.
    """

    max_frame = MAX_FRAME

    def __init__(self, sock: socket.socket, timeout_s: float | None = _MESSAGE_S) -> None:
        sock.settimeout(timeout_s)
        self._sock, self._timeout_s, self._lock = sock, timeout_s, threading.Lock()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def send(self, message: Any, fd: int | None = None) -> None:
        """Send an object, with an optional file descriptor.

        Raises:
            RequestError: It is too long, or not JSON.
            OSError: The other end is gone.
        """
        data = self.encode(message)
        packet = _HEADER.pack(len(data)) + data
        with self._lock:
            if fd is not None:
                packet = packet[socket.send_fds(self._sock, [packet], [fd]) :]
            self._sock.sendall(packet)

    def receive(self) -> tuple[Any, int | None]:
        """Wait for an object; return it with its file descriptor or None. The caller closes it.

        Raises:
            EOFError: The other end is gone.
            OSError: The other end is gone, stopped within a frame, or announced too long a frame.
            RequestError: The frame holds no message; the next one may.
        """
        self._poll.poll()
        header, fds, _, _ = socket.recv_fds(self._sock, _HEADER.size, 1)
        try:
            if not header:
                raise EOFError
            (size,) = _HEADER.unpack(header + self._exactly(_HEADER.size - len(header)))
            if size > self.max_frame:
                raise OSError(f"a frame of {size} bytes")
            return self.decode(self._exactly(size)), fds.pop() if fds else None
        finally:
            for extra in fds:
                os.close(extra)

    def poll(self, timeout_s: float) -> bool:
        """Return whether a message, or the end of the connection, arrives in time."""
        return bool(self._poll.poll(timeout_s * 1000))

    def has_room(self) -> bool:
        """Return whether a short message can be sent at once; any thread may ask."""
        room = select.poll()  # one object serves one thread at a time
        room.register(self._sock, select.POLLOUT)
        return bool(room.poll(0))

    def close(self) -> None:
        """Close this end; a second call does nothing."""
        self._sock.close()

    def encode(self, message: Any) -> bytes:
        """Return an object as the bytes after the length."""
        return to_json(message)

    def decode(self, data: bytes) -> Any:
        """Return the object of these bytes."""
        return _from_json(data)

    def _exactly(self, size: int) -> bytes:
        data, deadline = b"", time.monotonic() + (self._timeout_s or math.inf)
        while len(data) < size:
            if time.monotonic() > deadline:
                raise OSError("a frame that does not end")
            part = self._sock.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


def to_json(message: Mapping[str, Any]) -> bytes:
    """Return a message as the bytes after the length.

    Raises:
        RequestError: It is too long, or not JSON.
    """
    try:
        data = json.dumps(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError("spec", f"what is to be said is not JSON: {error}") from None
    if len(data) > MAX_FRAME:
        raise RequestError("spec", "a message is too long", expected=MAX_FRAME, found=len(data))
    return data


def _from_json(data: bytes) -> dict[str, Any]:
    try:
        message: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError("plugin", "a frame is not JSON", found=error) from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise RequestError("plugin", "a frame is no message", expected="an object with a kind")
    return message
