"""Where a recording goes: to the disk as it comes, or into memory until it is wanted."""

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
    """Takes what happened, in one thread; whatever it does may raise an OSError."""

    def write(self, item: Item) -> None:
        """One more."""
        ...

    def save(self) -> None:
        """Keep what is in memory."""
        ...

    def flush(self) -> None:
        """See what came so far to where it belongs."""
        ...

    def close(self) -> None:
        """That was all."""
        ...

    def discard(self) -> None:
        """Leave it as it is."""
        ...


class DirectSink:
    """To the disk as it comes.

    Args:
        log: Makes the messages.
        name: Makes the name of a bag.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self, log: MessageEncoder, name: Callable[[], Path]) -> None:
        self._log, self._bag = log, BagWriter(name(), log.store, (RUN,))
        self._bag.write(log.about())
        self._bag.flush()

    def write(self, item: Item) -> None:
        """Write it."""
        for message in self._log.messages(item):
            self._bag.write(message)

    def save(self) -> None:
        """It is kept already."""

    def flush(self) -> None:
        """Onto the disk."""
        self._bag.flush()

    def close(self) -> None:
        """Index and metadata."""
        self._bag.close()

    def discard(self) -> None:
        """It can be mended."""
        self._bag.discard()


class RingSink:
    """The last of it in memory, written when a fault latches or when it is asked for.

    Args:
        log: Makes the messages.
        name: Makes the name of a bag.
        before_s: How much is kept; ``num_bytes``, likewise, whichever is less.
        after_s: How much of what follows is written, too.
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
        """Keep it, and forget what is too old."""
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
        """Write it, as soon as what follows is there."""
        self._due_s = min(self._due_s, self._now_s + self._after_s)

    def flush(self) -> None:
        """Nothing is on its way."""

    def close(self) -> None:
        """What was to be written is written now."""
        if self._due_s < np.inf:
            self._write()

    def discard(self) -> None:
        """Forget it."""
        self._items.clear()

    def _is_too_much(self) -> bool:
        """More is kept while it is to be written: what came before is not to be lost."""
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
                time.sleep(0)  # lets the control loop have the interpreter
            bag.close()
        except OSError:
            bag.discard()
            raise
        self._items.clear()
        self._size = 0
