"""A node under the watch of another process, as its settings say."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from robo_rl_sim2real.node import Node
from robo_rl_sim2real.settings import Settings
from robo_rl_sim2real.watchdog.guard import Watchdog
from robo_rl_sim2real.watchdog.orders import Orders, columns


@contextmanager
def watched(node: Node, settings: Settings) -> Generator[None]:
    """While it lasts, the node moves the robot only as long as a watchdog is there.

    Raises:
        DeviceError: The watchdog does not start.
    """
    if not settings.watchdog.enabled:
        yield
        return
    watchdog = Watchdog(settings.watchdog, orders(node, settings))
    node.guard = watchdog
    try:
        yield
    finally:
        watchdog.close()


def orders(node: Node, settings: Settings) -> Orders:
    """What the node's watchdog is told."""
    limits = node.runtime.parts.safety.limits
    return Orders(
        pid=os.getpid(),
        transport=settings.transport,
        state=settings.state,
        limits=columns(limits),
        grace_s=settings.watchdog.grace_s,
        hold_s=settings.lifecycle.hold_s,
        outlets=node.wiring.outlets,
        dt_s=limits.dt_s,
    )
