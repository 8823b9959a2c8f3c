"""Sinks of a recording: directly to the disk, or a ring buffer in memory."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from robo_rl_sim2real.control.events import Tick
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.recording.bag_writer import BagWriter
from robo_rl_sim2real.recording.items import Item, size_of, stamp_of
from robo_rl_sim2real.recording.message_encoder import MessageEncoder
from robo_rl_sim2real.recording.topics import RUN


class Sink(Protocol):
    """Receives items in one thread; every method may raise an OSError."""

    def write(self, item: Item) -> None:
        """Add an item."""
        ...

    def save(self) -> None:
        """Save the items in memory."""
        ...

    def flush(self) -> None:
        """Sync all items to their destination."""
        ...

    def close(self) -> None:
        """Finish the recording."""
        ...

    def discard(self) -> None:
        """Abandon the recording as it is."""
        ...


class DirectSink:
    """Writes items directly to the disk.

    Args:
        log: Encodes the messages.
        name: Returns the path of a new bag.

    Raises:
        OSError: The bag cannot be created.
    """

    def __init__(self, log: MessageEncoder, name: Callable[[], Path]) -> None:
        self._log, self._bag = log, BagWriter(name(), log.store, (RUN,))
        self._bag.write(log.about())
        self._bag.flush()

    def write(self, item: Item) -> None:
        """Write an item."""
        for message in self._log.messages(item):
            self._bag.write(message)

    def save(self) -> None:
        """Do nothing, because all items are already written."""

    def flush(self) -> None:
        """Sync the bag to the disk."""
        self._bag.flush()

    def close(self) -> None:
        """Write index and metadata."""
        self._bag.close()

    def discard(self) -> None:
        """Abandon the bag; it can be recovered."""
        self._bag.discard()


class RingSink:
    """Keeps the latest items in memory and writes them after a fault or a request.

    Args:
        log: Encodes the messages.
        name: Returns the path of a new bag.
        before_s: Largest time span that is kept.
        after_s: Time span after the trigger that is also written.
        num_bytes: Largest size that is kept.
    """

    def __init__(
        self,
        log: MessageEncoder,
        name: Callable[[], Path],
        before_s: float,
        after_s: float,
        num_bytes: int,
    ) -> None:
        self._log, self._name, self._after_s = log, name, after_s
        self._before_s, self._limit = before_s, num_bytes
        self._items: deque[Item] = deque()
        self._size, self._now_s, self._due_s = 0, -np.inf, np.inf
        self._faulted = False

    def write(self, item: Item) -> None:
        """Add an item and drop those beyond the limits."""
        self._items.append(item)
        self._size += size_of(item)
        self._now_s = max(self._now_s, stamp_of(item))
        if isinstance(item, Tick):
            faulted = item.output.state is State.FAULTED
            if faulted and not self._faulted:
                self.save()
            self._faulted = faulted
        if self._now_s >= self._due_s:
            self._write()
        while self._items and self._is_too_much():
            self._size -= size_of(self._items.popleft())

    def save(self) -> None:
        """Schedule writing, once the items of the next ``after_s`` are there."""
        self._due_s = min(self._due_s, self._now_s + self._after_s)

    def flush(self) -> None:
        """Do nothing, because no item is half-written."""

    def close(self) -> None:
        """Write the items if writing is scheduled."""
        if self._due_s < np.inf:
            self._write()

    def discard(self) -> None:
        """Drop all items."""
        self._items.clear()

    def _is_too_much(self) -> bool:
        """Return whether the oldest item is beyond the limits.

        The limits are larger while writing is scheduled.
        """
        kept_s = self._before_s + (self._after_s if self._due_s < np.inf else 0.0)
        return self._size > self._limit or self._now_s - stamp_of(self._items[0]) > kept_s

    def _write(self) -> None:
        self._due_s = np.inf
        bag = BagWriter(self._name(), self._log.store, (RUN,))
        try:
            bag.write(self._log.about())
            for item in self._items:
                for message in self._log.messages(item):
                    bag.write(message)
                time.sleep(0)  # yields the interpreter to the control loop
            bag.close()
        except OSError:
            bag.discard()
            raise
        self._items.clear()
        self._size = 0
