"""Checks that each topic of readings has one publishing node, unless the topic is shared.

Readings of two sources on one topic are interleaved, and each of them can be plausible. The monitor
asks the transport for the publishers at activation and repeatedly afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.transport.base import Endpoint, Transport

_EVERY_S = 0.5

REMEDY = "stop the others, or name the topic in shared_topics; a killed one is forgotten after 10 s"


def competing_publishers(kind: MsgType, ends: Iterable[Endpoint]) -> str:
    """Return the publishing nodes of a topic if there are several; empty otherwise."""
    found = [end.node or "unnamed node" for end in ends if end.writes and end.type == kind.value]
    return f"{len(found)} nodes publish it: {', '.join(sorted(found))}" if len(found) > 1 else ""


class PublisherMonitor:
    """Monitors the publishers of the topics of readings.

    Args:
        transport: Source of the endpoints.
        topics: Topic → interface, for all readings.
        shared: Topics with several allowed publishers.
    """

    def __init__(
        self, transport: Transport, topics: Mapping[str, MsgType], shared: Iterable[str] = ()
    ) -> None:
        self._transport, self._lock = transport, threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._topics = {topic: kind for topic, kind in topics.items() if topic not in {*shared}}
        self.problem = ""

    def poll(self) -> str:
        """Query the publishers; return the topics with several, empty for none. Thread-safe."""
        with self._lock:
            found = {
                topic: competing_publishers(kind, self._transport.endpoints(topic))
                for topic, kind in self._topics.items()
            }
            self.problem = "; ".join(f"{topic}: {why}" for topic, why in found.items() if why)
            return self.problem

    @contextmanager
    def running(self) -> Generator[None]:
        """Query repeatedly in a thread of its own, inside the context.

        The context does not wait for a query at its end, since the robot still moves there.
        """
        self.close()
        self._over = over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, args=(over,), name="publishers", daemon=True
        )
        self._thread.start()
        try:
            yield
        finally:
            over.set()

    def close(self) -> None:
        """Wait for the thread, before the transport is closed."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            try:
                self.poll()
            except Exception as error:  # unknown publishers are a problem
                self.problem = f"who publishes is not known: {type(error).__name__}: {error}"
