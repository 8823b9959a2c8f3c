"""Subscribes to the emergency stop, and receives the last message of latched publishers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.transport.base import COMMAND, LATCHED, Put, Transport

_PATIENCE_S = 0.5
"""Time within which a latched publisher's last message arrives."""


class EmergencyStopListener:
    """Subscribes to the emergency stop.

    A volatile subscriber receives no earlier message, and a latched one none of a volatile
    publisher, whose node then reports the mismatch. So the latched subscription is made once
    ``poll`` finds a latched publisher.

    Args:
        transport: The node's transport.
        topic: Topic of the emergency stop.
        put: Receives the messages; those of latched publishers come twice.
        now_s: Monotonic clock.
    """

    def __init__(
        self, transport: Transport, topic: str, put: Put, now_s: Callable[[], float]
    ) -> None:
        self._transport, self._topic, self._now_s = transport, topic, now_s
        self._subscribe = partial(transport.subscribe, topic, MsgType.FLAG, put)
        self._asked_s: float | None = None
        self._subscribe(COMMAND)

    def poll(self) -> bool:
        """Look for latched publishers; return whether a last message may still be on its way."""
        if self._asked_s is None:
            ends = self._transport.endpoints(self._topic)
            if not any(end.writes and end.qos.latched for end in ends):
                return False
            self._asked_s = self._now_s()
            self._subscribe(LATCHED)
        return self._now_s() - self._asked_s < _PATIENCE_S
