"""Messages and file descriptors between an env and its own processes, over an unnamed socket.

Pickle is safe here: both ends are processes of one program, and no other process can open the
socket. Only small messages are sent this way; arrays are in shared memory.
"""

from __future__ import annotations

import pickle
from typing import Any

from robo_rl.env.serve.connection import JsonConnection


class PickleConnection(JsonConnection):
    """A ``JsonConnection`` that carries pickled objects of any type and length."""

    max_frame = 2**32

    def encode(self, message: Any) -> bytes:
        """Return the pickled object."""
        return pickle.dumps(message)

    def decode(self, data: bytes) -> Any:
        """Return the unpickled object."""
        return pickle.loads(data)
