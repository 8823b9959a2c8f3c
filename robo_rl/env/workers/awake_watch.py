"""A watch for time limits, which stands still while the program is suspended."""

from __future__ import annotations

import time
from collections.abc import Callable

_LONGEST_WAIT_S = 1.0


class AwakeWatch:
    """Counts the seconds spent in waits.

    A clock also counts the time in which a process and its workers are all suspended, and healthy
    workers would exceed their limits. Here, a wait counts for no longer than it was meant to last.

    Attributes:
        elapsed_s: Seconds counted so far.
    """

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def wait(self, poll: Callable[[float], bool], at_most_s: float) -> bool:
        """Call ``poll`` with a time limit (s), which it must observe, and return its answer.

        Args:
            poll: Returns whether what is awaited has arrived.
            at_most_s: Its time limit, reduced to 1 s.
        """
        limit_s = max(0.0, min(at_most_s, _LONGEST_WAIT_S))
        begun = time.monotonic()
        found = poll(limit_s)
        self.elapsed_s += min(time.monotonic() - begun, limit_s)
        return found
