"""Ctrl-C, ``kill`` and a lost terminal end a verb in order, whatever was inherited for them."""

from __future__ import annotations

import signal
from collections.abc import Callable


def stop_on_signal(stop: Callable[[], None]) -> None:
    """Call ``stop`` where a signal would end the process; a second one changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop())
