"""Who publishes what the robot's readings come from: one node a topic, unless it is said otherwise.

Readings of two sources on one topic are mixed, and each of them can look right. Who publishes is
asked of the transport, when a policy is to begin and from then on again and again.
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
    """Whose the publishers of a topic are where there is more than one; else empty."""
    found = [end.node or "somebody" for end in ends if end.writes and end.type == kind.value]
    return f"{len(found)} nodes publish it: {', '.join(sorted(found))}" if len(found) > 1 else ""


class PublisherMonitor:
    """Of topics of readings.

    Args:
        transport: That knows them.
        topics: Topic → interface, of all that is read.
        shared: Topics that several may publish on.
    """

    def __init__(
        self, transport: Transport, topics: Mapping[str, MsgType], shared: Iterable[str] = ()
    ) -> None:
        self._transport, self._over, self._lock = transport, threading.Event(), threading.Lock()
        self._topics = {topic: kind for topic, kind in topics.items() if topic not in {*shared}}
        self.problem = ""

    def poll(self) -> str:
        """Ask anew; says which topic has several, empty for none. From any thread."""
        with self._lock:
            found = {
                topic: competing_publishers(kind, self._transport.endpoints(topic))
                for topic, kind in self._topics.items()
            }
            self.problem = "; ".join(f"{topic}: {why}" for topic, why in found.items() if why)
            return self.problem

    @contextmanager
    def running(self) -> Generator[None]:
        """Ask again and again meanwhile, in a thread of its own."""
        self._over.clear()
        thread = threading.Thread(target=self._watch, name="publishers", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join(timeout=1.0)

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            try:
                self.poll()
            except Exception as error:  # not to know is no reason to go on
                self.problem = f"who publishes is not known: {type(error).__name__}: {error}"
