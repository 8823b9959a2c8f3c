"""Defers SIGINT, SIGTERM and SIGHUP in a training loop until a checkpoint is saved.

A training loop saves between two updates and then ends. Outside such a loop the signals raise
``Interrupted`` at once; a second signal does so in a loop too. A signal that the process ignores
from its start stays ignored, as SIGHUP does under ``nohup``. SIGHUP says that the terminal is gone.
Only the main thread receives signals.
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

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAIT = b"\nrobo-rl: interrupted; the current step is finished and saved, once more ends at once\n"

Handler = Callable[[int, FrameType | None], Any]


class _Ending:
    """Whether a signal is ending the process; another SIGHUP then must not cut the clean-up short.

    A plain attribute, because signal handlers interrupt each other and so must not take a lock.
    """

    begun = False


_ending = _Ending()


class Interrupted(KeyboardInterrupt):
    """A signal has ended the current work.

    Args:
        number: Number of the signal.
        kept: What has been saved, as a clause; None if nothing was saved.
    """

    def __init__(self, number: int, kept: str | None = None) -> None:
        self.number, self.kept = number, kept
        super().__init__(kept or f"signal {number}")

    @property
    def status(self) -> int:
        """Exit status of the process: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""
        return 128 + self.number


class SafePoint:
    """Point between the updates of a loop at which a signal may end it."""

    def __init__(self) -> None:
        self._number = 0
        self._kept: str | None = None

    def checkpoint(self, save: Callable[[], object], *, due: bool, kept: str) -> None:
        """Save if a checkpoint is due or a signal has arrived; then end after a signal.

        Processes that train together all call it after the same update. They all end if any of them
        received a signal.

        Args:
            save: Writes the checkpoint.
            due: Whether to save in any case.
            kept: Description of the saved work, for the message.

        Raises:
            Interrupted: A signal has arrived; the checkpoint is written.
        """
        number = self._asked()
        if due or number:
            save()
            self._kept = kept
            # All processes wait here for the one that saves; a signal meanwhile has its checkpoint.
            later = self._asked()
            number = number or later
        if number:
            _ending.begun = True
            raise Interrupted(number, kept)

    def end(self) -> None:
        """End if a signal has arrived after the last checkpoint.

        Raises:
            Interrupted: A signal has arrived.
        """
        if self._number:
            _ending.begun = True
            raise Interrupted(self._number, self._kept)

    def _asked(self) -> int:
        """Return the signal that any of the processes received, 0 for none."""
        from robo_rl.distributed.process_group import (
            all_reduce_min,  # imports torch, which the command line avoids
        )

        return -all_reduce_min(-self._number)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Store the first signal; a second one ends at once, unless it is another SIGHUP."""
        if self._number and number == signal.SIGHUP:
            return  # a closed terminal sends it twice: from the shell, and from the kernel
        if self._number:
            _ending.begun = True
            raise Interrupted(number)
        self._number = number
        with contextlib.suppress(OSError):
            os.write(2, _WAIT)  # the newline separates it from an unfinished line
        del frame


@contextmanager
def between_updates() -> Generator[SafePoint]:
    """Defer signals until ``SafePoint.checkpoint`` or the end of the loop.

    Raises:
        Interrupted: A signal has arrived.
    """
    pause = SafePoint()
    with signal_handler(pause.on_signal):
        yield pause
    pause.end()


@contextmanager
def raising_interrupted() -> Generator[None]:
    """Raise ``Interrupted`` on any of the signals, so that open resources are closed."""
    _ending.begun = False

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        if not (_ending.begun and number == signal.SIGHUP):  # see ``SafePoint.on_signal``
            _ending.begun = True
            raise Interrupted(number)

    with signal_handler(end):
        yield


@contextmanager
def signal_handler(handler: Handler) -> Generator[None]:
    """Send the signals to ``handler`` and restore the old handlers at exit."""
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
