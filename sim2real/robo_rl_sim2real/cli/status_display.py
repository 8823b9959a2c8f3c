"""The state and health of a node on the console, while it runs and at its end."""

from __future__ import annotations

import sys
import threading

from robo_rl_sim2real.control.health import Health
from robo_rl_sim2real.node.node import Node


class StatusDisplay:
    """Prints one live line per second on a terminal, or one plain line every 10 s elsewhere.

    It runs in a thread of its own, so that a blocked reader does not stop the robot.

    Args:
        node: The node.
    """

    def __init__(self, node: Node) -> None:
        self._node, self._live, self._over = node, sys.stderr.isatty(), threading.Event()
        self._thread = threading.Thread(target=self._show, name="view", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop printing; wait at most 1 s for a blocked line."""
        self._over.set()
        self._thread.join(timeout=1.0)

    def _show(self) -> None:
        start, end = ("\r\x1b[K", "") if self._live else ("", "\n")
        while not self._over.wait(1.0 if self._live else 10.0):
            sys.stderr.write(f"{start}{status_line(self._node)}{end}")
            sys.stderr.flush()


def status_line(node: Node) -> str:
    """Return state and health as one line."""
    health: Health = node.health
    p50, p99 = (1e3 * value for value in health.latency_s)
    parts = [
        *(["dry run: no command is sent"] if node.dry_run else []),
        f"{health.state}{f' ({health.reason})' if health.reason else ''}",
        f"{health.ticks} ticks, {health.missed} missed",
        *([_holds(health)] if health.holds else []),
        f"reading to command {p50:.1f} / {p99:.1f} ms",
        f"{health.clamped} clamped",
        *node.transport.problems(),
        *node.listeners.problems(),
        *([health.problem] if health.problem else []),
    ]
    return " · ".join(parts)


def _holds(health: Health) -> str:
    """Return the number of holds and their reasons, such as ``2 holds: 2 stale observation``."""
    reasons = ", ".join(f"{number} {reason}" for reason, number in health.hold_reasons.items())
    return f"{health.holds} hold{'s' if health.holds > 1 else ''}: {reasons}"
