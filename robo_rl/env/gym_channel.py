"""Messages and file descriptors between ``GymEnv`` and its workers, over an anonymous Unix socket.

Pickle is safe here as nowhere else: both ends are processes of one program, and nobody can name the
socket. Only small messages go this way; arrays are in shared memory.
"""

from __future__ import annotations

import os
import pickle
import select
import socket
import struct
from typing import Any

_HEADER = struct.Struct("!I")


class Channel:
    """One end of a connection that carries whole messages.

    Args:
        sock: Connected stream socket of the Unix family; closed with the channel.
        timeout_s: How long one message may take on its way once it has begun.
    """

    def __init__(self, sock: socket.socket, timeout_s: float | None = None) -> None:
        sock.settimeout(timeout_s)
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def send(self, message: Any, fd: int | None = None) -> None:
        """Send a message, with a file descriptor if need be.

        Raises:
            OSError: The other end is gone.
        """
        data = pickle.dumps(message)
        packet = _HEADER.pack(len(data)) + data
        if fd is None:
            self._sock.sendall(packet)
        else:
            sent = socket.send_fds(self._sock, [packet], [fd])
            self._sock.sendall(packet[sent:])

    def receive(self) -> tuple[Any, int | None]:
        """Wait for a message; the second is the descriptor that came with it, now ours to close.

        Raises:
            EOFError: The other end is gone.
            OSError: Likewise, or it stopped in mid-message.
        """
        header, fds, _, _ = socket.recv_fds(self._sock, _HEADER.size, 1)
        for extra in fds[1:]:
            os.close(extra)
        data = self._exactly(_HEADER.unpack(header + self._rest(header))[0])
        return pickle.loads(data), fds[0] if fds else None

    def poll(self, timeout_s: float) -> bool:
        """Whether a message, or the news that the other end is gone, arrives in time."""
        return bool(self._poll.poll(timeout_s * 1000))

    def close(self) -> None:
        """Close this end; calling it twice is harmless."""
        self._sock.close()

    def _rest(self, header: bytes) -> bytes:
        if not header:
            raise EOFError
        return self._exactly(_HEADER.size - len(header))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._sock.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


def channel_pair(timeout_s: float) -> tuple[Channel, socket.socket]:
    """Our end, and the socket to hand to the other process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours, timeout_s), theirs
