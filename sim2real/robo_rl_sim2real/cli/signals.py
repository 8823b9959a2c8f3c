"""Handles Ctrl-C, ``kill`` and a lost terminal, regardless of inherited handlers."""

from __future__ import annotations

import signal
from collections.abc import Callable


def stop_on_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` on a signal that would end the process; repeated signals call it again."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop())


def end_on_signal() -> None:
    """Let signals end the process again, such as while a pipe has no reader."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
