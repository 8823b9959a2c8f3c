"""A node under the watch of another process, as its settings say."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.settings import Settings
from robo_rl_sim2real.watchdog.guard import Watchdog
from robo_rl_sim2real.watchdog.orders import Estate, Orders, columns

NOTHING = Estate()


@contextmanager
def watched(node: Node, settings: Settings, estate: Estate = NOTHING) -> Generator[None]:
    """While it lasts, the node moves the robot only as long as a watchdog is there.

    Args:
        node: Which.
        settings: What it runs by.
        estate: What the watchdog finishes if this process is killed.

    Raises:
        DeviceError: The watchdog does not start.
    """
    if not settings.watchdog.enabled:
        yield
        return
    watchdog = Watchdog(settings.watchdog, orders(node, settings, estate))
    node.guard = watchdog
    try:
        yield
    finally:
        watchdog.close()


def orders(node: Node, settings: Settings, estate: Estate = NOTHING) -> Orders:
    """What the node's watchdog is told."""
    limits = node.runtime.parts.safety.limits
    return Orders(
        pid=os.getpid(),
        transport=settings.transport,
        state=settings.state,
        limits=columns(limits),
        grace_s=settings.watchdog.grace_s,
        hang_s=settings.watchdog.hang_s,
        hold_s=settings.lifecycle.hold_s,
        outlets=node.wiring.outlets,
        dt_s=limits.dt_s,
        estate=estate,
    )
