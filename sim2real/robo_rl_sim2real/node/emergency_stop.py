"""Subscribes to the emergency stop, judges its publishers, and hears their last messages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.graph_checks import EndpointSource, GraphCheck
from robo_rl_sim2real.transport.base import (
    COMMAND,
    LATCHED,
    Endpoint,
    Put,
    Transport,
    qos_incompatibility,
)

_PATIENCE_S = 0.5
"""Time within which a latched publisher's last message arrives."""

_REMEDY = (
    f"one reliable publisher of {MsgType.FLAG.value}: mend or stop the others, or name the topic in"
    " shared_topics; a killed one is forgotten after 10 s"
)


def unreliable_publishers(ends: Iterable[Endpoint], *, shared: bool = False) -> str:
    """Return why presses may be missed; empty if the only publisher is heard, or if there is none.

    Several publishers hide each other: one that falls silent is not noticed while another sends,
    and a release by one ends the press of another.

    Args:
        ends: Endpoints of the topic.
        shared: Whether several publishers are allowed.
    """
    writers = [end for end in ends if end.writes]
    found = [f"{_name(end)} is not heard: {why}" for end in writers if (why := _unheard(end))]
    if len(writers) > 1 and not shared:
        names = ", ".join(sorted(map(_name, writers)))
        found.append(f"{len(writers)} nodes publish it: {names}")
    return "; ".join(found)


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
        shared: Whether several publishers are allowed.
        timeout_s: Age of the last message beyond which the emergency stop is silent; 0 for never.
    """

    def __init__(
        self,
        transport: Transport,
        topic: str,
        put: Put,
        now_s: Callable[[], float],
        *,
        shared: bool = False,
        timeout_s: float = 0.0,
    ) -> None:
        self._topic, self._put, self._now_s = topic, put, now_s
        self._subscribe = partial(transport.subscribe, topic, MsgType.FLAG, self._hear)
        self._shared, self._timeout_s, self._lock = shared, timeout_s, threading.Lock()
        self._heard_s = -np.inf
        """Arrival of the last message, on the node's clock."""
        self._asked_s: float | None = None
        self._is_required = False
        self._subscribe(COMMAND)

    def begin(self) -> None:
        """Forget the publishers of before: from now on one that is found must stay."""
        self._is_required = False

    @property
    def is_silent(self) -> bool:
        """Whether a required message is missing."""
        return 0.0 < self._timeout_s < self._now_s() - self._heard_s

    @property
    def is_waiting(self) -> bool:
        """Whether the first message, of a latched publisher, may still be on its way."""
        asked_s = self._asked_s
        is_asked = asked_s is not None and self._now_s() - asked_s < _PATIENCE_S
        return is_asked and self._heard_s == -np.inf

    @property
    def check(self) -> GraphCheck:
        """The check that presses are not missed."""
        return GraphCheck("the emergency stop is not reliable", self.poll, _REMEDY)

    def poll(self, graph: EndpointSource) -> str:
        """Judge the publishers, and ask latched ones for their last message. Thread-safe.

        Args:
            graph: The present graph.

        Returns:
            Why presses may be missed; empty if they are not.
        """
        ends = graph.endpoints(self._topic)
        with self._lock:
            if self._asked_s is None and any(end.writes and end.qos.latched for end in ends):
                self._subscribe(LATCHED)
                self._asked_s = self._now_s()
        left = self._left(ends)
        found = unreliable_publishers(ends, shared=self._shared) or left
        return f"{self._topic}: {found}" if found else ""

    def _hear(self, reading: Reading) -> None:
        self._put(reading)  # first: a start that is no longer waiting must see the press
        self._heard_s = self._now_s()

    def _left(self, ends: Iterable[Endpoint]) -> str:
        """Return that no publisher is left of those since ``begin``; empty if one is."""
        if any(end.writes for end in ends):
            self._is_required = True
            return ""
        return "its publisher left" if self._is_required else ""


def _name(end: Endpoint) -> str:
    return end.node or "unnamed node"


def _unheard(end: Endpoint) -> str:
    """Return why the subscription of the emergency stop does not match a publisher."""
    if end.type != MsgType.FLAG.value:
        return f"expected {MsgType.FLAG.value}, found {end.type}"
    return qos_incompatibility(end.qos, COMMAND)
