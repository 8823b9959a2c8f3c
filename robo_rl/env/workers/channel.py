"""Messages and file descriptors between an env and processes of its own, over an unnamed socket.

Pickle is safe here as nowhere else: both ends are processes of one program, and nobody can name the
socket. Only small messages go this way; arrays are in shared memory.
"""

from __future__ import annotations

import pickle
from typing import Any

from robo_rl.env.serve.connection import JsonConnection


class PickleConnection(JsonConnection):
    """A ``Line`` that carries objects of any kind and length."""

    max_frame = 2**32

    def encode(self, message: Any) -> bytes:
        """The object, pickled."""
        return pickle.dumps(message)

    def decode(self, data: bytes) -> Any:
        """The object again."""
        return pickle.loads(data)
