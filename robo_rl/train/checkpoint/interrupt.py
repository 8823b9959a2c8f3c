"""SIGINT and SIGTERM wait for a moment at which nothing is lost.

Between two updates a loop saves, and only then it ends. Everywhere else both signals raise
``Interrupted`` at once, and so does a second one within a loop. A signal that the process was
started to ignore stays ignored, and threads other than the main one get none.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_WAIT = b"\nrobo-rl: interrupted; this update is finished and saved first, once more ends at once\n"

Handler = Callable[[int, FrameType | None], Any]


class Interrupted(KeyboardInterrupt):
    """A signal has ended what was being done.

    Args:
        number: Of the signal.
        kept: What has been saved, as a clause; None where nothing was.
    """

    def __init__(self, number: int, kept: str | None = None) -> None:
        self.number, self.kept = number, kept
        super().__init__(kept or f"signal {number}")

    @property
    def status(self) -> int:
        """Exit status of a process that ends by it: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.number


class SafePoint:
    """What a loop asks between its updates."""

    def __init__(self) -> None:
        self._number = 0
        self._kept: str | None = None

    def checkpoint(self, save: Callable[[], object], *, due: bool, kept: str) -> None:
        """Save where that is due or a signal has come; end there if one has.

        Processes that train together all call it after the same update. They all end if any of
        them was signalled.

        Args:
            save: Writes the checkpoint.
            due: Whether to save in any case.
            kept: What is saved then, for the message.

        Raises:
            Interrupted: A signal has come; the checkpoint is written.
        """
        number = self._asked()
        if due or number:
            save()
            self._kept = kept
            number = number or self._asked()  # one that came meanwhile has its checkpoint
        if number:
            raise Interrupted(number, kept)

    def end(self) -> None:
        """End if a signal has come behind the last checkpoint.

        Raises:
            Interrupted: One has.
        """
        if self._number:
            raise Interrupted(self._number, self._kept)

    def _asked(self) -> int:
        """The signal that has come to any of the processes, 0 for none."""
        from robo_rl.distributed.process_group import (
            all_reduce_min,  # loads torch, which a command line does not wait for
        )

        return -all_reduce_min(-self._number)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Note the first signal; a second one ends at once."""
        if self._number:
            raise Interrupted(number)
        self._number = number
        with contextlib.suppress(OSError):
            os.write(2, _WAIT)  # also where the signal came in the middle of another line
        del frame


@contextmanager
def between_updates() -> Generator[SafePoint]:
    """Within it a signal waits until ``SafePoint.checkpoint``, or until the loop has come to its end.

    Raises:
        Interrupted: A signal has come.
    """
    pause = SafePoint()
    with signal_handler(pause.on_signal):
        yield pause
    pause.end()


@contextmanager
def raising_interrupted() -> Generator[None]:
    """Within it both signals raise ``Interrupted``, so that what is open is closed."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise Interrupted(number)

    with signal_handler(end):
        yield


@contextmanager
def signal_handler(handler: Handler) -> Generator[None]:
    """Within it both signals go to ``handler``; behind it to whom they went before."""
    before = dict[int, Any]()
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, theirs in before.items():
            signal.signal(number, theirs)
