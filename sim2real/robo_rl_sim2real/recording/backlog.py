"""What waits to be recorded: bounded, and without a lock that a control loop could wait for."""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Backlog(Generic[_T]):
    """From any threads to one. What does not fit is dropped and counted.

    Each thread counts what it put for itself, so that no two write to one number.

    Args:
        limit_bytes: How much may wait.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._items: deque[tuple[_T, int]] = deque()
        self._put: dict[int, int] = {}
        self._dropped: dict[int, int] = {}
        self._taken = 0

    @property
    def dropped(self) -> int:
        """How many did not fit."""
        return sum(list(self._dropped.values()))

    def put(self, item: _T, num_bytes: int) -> None:
        """One more, of about that size."""
        who = get_ident()
        if sum(list(self._put.values())) - self._taken + num_bytes > self._limit:
            self._dropped[who] = self._dropped.get(who, 0) + 1
            return
        self._put[who] = self._put.get(who, 0) + num_bytes
        self._items.append((item, num_bytes))

    def pop(self) -> _T | None:
        """The oldest; None where there is none. For one thread only."""
        try:
            item, num_bytes = self._items.popleft()
        except IndexError:
            return None
        self._taken += num_bytes
        return item
