"""DDS domains that no other test, of this process or of another, has at the moment."""

from __future__ import annotations

import itertools
import os
import socket

_claims: list[socket.socket] = []
_next = itertools.count(os.getpid())
_LOWEST, _NUMBER, _PORTS = 10, 190, 61_000


def free_domain() -> int:
    """A domain that is this process's until it ends: who has a port's number has the domain's."""
    for _ in range(_NUMBER):
        index = next(_next) % _NUMBER
        claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim.bind(("127.0.0.1", _PORTS + index))
        except OSError:
            claim.close()
        else:
            _claims.append(claim)
            return _LOWEST + index
    raise RuntimeError("no domain is free")
