"""A bounded queue of items to record, without a lock that could block the control loop."""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Backlog(Generic[_T]):
    """A queue from any threads to one thread. Items beyond the limit are dropped and counted.

    Each thread has its own byte counter, so that no two threads write to one counter.

    Args:
        limit_bytes: Limit on the size of the waiting items.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._items: deque[tuple[_T, int]] = deque()
        self._put: dict[int, int] = {}
        self._dropped: dict[int, int] = {}
        self._taken = 0

    @property
    def dropped(self) -> int:
        """Number of dropped items."""
        return sum(list(self._dropped.values()))

    def put(self, item: _T, num_bytes: int) -> None:
        """Append an item of about that size."""
        who = get_ident()
        if sum(list(self._put.values())) - self._taken + num_bytes > self._limit:
            self._dropped[who] = self._dropped.get(who, 0) + 1
            return
        self._put[who] = self._put.get(who, 0) + num_bytes
        self._items.append((item, num_bytes))

    def pop(self) -> _T | None:
        """Remove and return the oldest item; None without one. For one thread only."""
        try:
            item, num_bytes = self._items.popleft()
        except IndexError:
            return None
        self._taken += num_bytes
        return item
