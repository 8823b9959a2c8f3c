"""A transport within one process, for tests and for robots simulated in that process."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robo_rl_sim2real.messages.kinds import STAMPED, MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.trajectory import FOLLOW
from robo_rl_sim2real.transport.base import (
    COMMAND,
    NEWEST,
    NO_TAKER,
    SEND_GOAL,
    SENSOR,
    Call,
    Endpoint,
    Publisher,
    Put,
    Qos,
    ServiceResponse,
    full_name,
    no_service_message,
    qos_incompatibility,
    service_response,
)
from robo_rl_sim2real.transport.publishers import ClosablePublisher


class _Subscription(NamedTuple):
    kind: MsgType
    put: Put
    qos: Qos


class _Publication(NamedTuple):
    kind: MsgType
    qos: Qos
    said: deque[Reading]


class Bus:
    """The state that the transports of one process share; ROS 2's QoS matching rules hold on it.

    Args:
        now_s: Monotonic clock for the time stamps of messages.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.now_s = now_s
        self.lock = threading.RLock()
        self.ears: defaultdict[str, list[_Subscription]] = defaultdict(list)
        self.mouths: defaultdict[str, list[_Publication]] = defaultdict(list)
        self.services: dict[str, Call] = {}
        self.bad: dict[str, str] = {}


class Loopback:
    """One participant of a bus; see ``Transport``.

    Args:
        bus: Shared with the other participants.
        node: Name of this participant.
    """

    def __init__(self, bus: Bus, node: str = "robo_rl") -> None:
        self.bus, self.node = bus, node
        self._ears: list[tuple[str, _Subscription]] = []
        self._mouths: list[tuple[str, _Publication]] = []
        self._outs: list[_TopicPublisher] = []
        self._services: list[str] = []
        self._pursued: list[str] = []

    def subscribe(self, topic: str, kind: MsgType, put: Put, qos: Qos = SENSOR) -> None:
        """See ``Transport``."""
        ear = _Subscription(kind, put, qos)
        with self.bus.lock:
            self.bus.ears[topic].append(ear)
            self._ears.append((topic, ear))
            for mouth in self.bus.mouths[topic]:
                if mouth.qos.latched and qos.latched and not _deaf(mouth, ear):
                    for reading in mouth.said:
                        put(reading)

    def create_publisher(self, topic: str, kind: MsgType, qos: Qos = COMMAND) -> Publisher:
        """See ``Transport``."""
        mouth = _Publication(kind, qos, deque(maxlen=qos.depth))
        with self.bus.lock:
            self.bus.mouths[topic].append(mouth)
            self._mouths.append((topic, mouth))
        self._outs.append(_TopicPublisher(self.bus, topic, mouth))
        return self._outs[-1]

    def create_goal_publisher(self, action: str) -> Publisher:
        """See ``Transport``."""
        self._pursued.append(action)
        return self.create_publisher(f"{action}{SEND_GOAL}", MsgType.TRAJECTORY, NEWEST)

    def create_goal_server(self, action: str, put: Put) -> None:
        """See ``Transport``."""
        self.subscribe(f"{action}{SEND_GOAL}", MsgType.TRAJECTORY, put, NEWEST)

    def create_service(self, name: str, call: Call) -> None:
        """See ``Transport``."""
        name = full_name(name, self.node)
        self.bus.services[name] = call
        self._services.append(name)

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """See ``Transport``; endpoints on a bus have no node names."""
        ours = {id(end) for _, end in (*self._ears, *self._mouths)}
        with self.bus.lock:
            found = self._ends(f"{topic}{SEND_GOAL}", FOLLOW) if action else self._ends(topic)
        return [end for end, of in found if of not in ours]

    def _ends(self, topic: str, interface: str = "") -> list[tuple[Endpoint, int]]:
        """Return all endpoints of a topic, each with the identity of its object."""
        ends = [(False, ear) for ear in self.bus.ears[topic]]
        ends += [(True, mouth) for mouth in self.bus.mouths[topic]]
        return [
            (Endpoint("", interface or end.kind.value, writes, end.qos), id(end))
            for writes, end in ends
        ]

    def call_service(self, name: str, patience_s: float = 2.0) -> ServiceResponse:
        """See ``Transport``; the service runs in the caller's thread.

        Raises:
            RoboRlError: The bus has no such service.
        """
        call = self.bus.services.get(full_name(name, self.node))
        if call is None:
            raise no_service_message(name, patience_s)
        return service_response(call)

    def problems(self) -> list[str]:
        """See ``Transport``."""
        with self.bus.lock:
            ours = [(t, m, e) for t, e in self._ears for m in self.bus.mouths[t]]
            ours += [(t, m, e) for t, m in self._mouths for e in self.bus.ears[t]]
            heard = {topic for topic, _ in self._ears}
            bad = [f"{topic}: {why}" for topic, why in self.bus.bad.items() if topic in heard]
            bad += [
                f"{action}: {NO_TAKER}"
                for action in self._pursued
                if not self.bus.ears[f"{action}{SEND_GOAL}"]
            ]
        return bad + [f"{topic}: {why}" for topic, m, e in ours if (why := _deaf(m, e))]

    def close(self) -> None:
        """See ``Transport``."""
        with self.bus.lock:
            for topic, ear in self._ears:
                self.bus.ears[topic].remove(ear)
            for topic, mouth in self._mouths:
                self.bus.mouths[topic] = [m for m in self.bus.mouths[topic] if m is not mouth]
            for name in self._services:
                self.bus.services.pop(name, None)
        for out in self._outs:
            out.close()
        self._ears, self._mouths, self._outs, self._services = [], [], [], []


class _TopicPublisher(ClosablePublisher[_Publication]):
    """A publisher that gives every matching subscriber its own copy of the values."""

    def __init__(self, bus: Bus, topic: str, mouth: _Publication) -> None:
        super().__init__(mouth)
        self._bus, self._topic = bus, topic

    def _publish(self, end: _Publication, reading: Reading) -> None:
        fields = {name: np.array(value) for name, value in reading.fields.items()}
        now_s = self._bus.now_s()
        said_s = (reading.stamp_s or now_s) if end.kind in STAMPED else 0.0
        sent = Reading(fields, reading.names, now_s, sent_s=said_s)
        with self._bus.lock:
            end.said.append(sent)
            ears = [ear for ear in self._bus.ears[self._topic] if not _deaf(end, ear)]
        for ear in ears:
            try:
                ear.put(sent)
            except Exception as error:  # a failing subscriber does not stop the publisher
                self._bus.bad[self._topic] = f"{type(error).__name__}: {error}"


def _deaf(mouth: _Publication, ear: _Subscription) -> str:
    """Return why the subscriber does not match the publisher by ROS 2's rules; empty if it does."""
    if mouth.kind is not ear.kind:
        return f"type {ear.kind.value} here, {mouth.kind.value} there"
    return qos_incompatibility(mouth.qos, ear.qos)
