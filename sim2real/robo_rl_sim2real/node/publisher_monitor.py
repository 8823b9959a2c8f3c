"""Checks the graph at a start and repeatedly afterwards: who publishes, and who listens.

Each topic of readings has one publishing node, unless the topic is shared: readings of two sources
on one topic are interleaved, and each of them can be plausible. Further checks can be added.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.core.graph_problems import GraphProblems
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node.graph_checks import EndpointSource, GraphCheck, GraphSnapshot
from robo_rl_sim2real.transport.base import Endpoint, Transport

_EVERY_S = 0.5
_OVERDUE_S = 3.0
"""Time since the last look at the graph, after which it is unknown; a look takes milliseconds."""
_PATIENCE_S = 0.5
"""Wait of a start for another look; the control loop waits, and commands may be sent meanwhile."""
_UNKNOWN = "who publishes is not known"

REMEDY = "stop the others, or name the topic in shared_topics; a killed one is forgotten after 10 s"


def competing_publishers(kind: MsgType, ends: Iterable[Endpoint]) -> str:
    """Return the publishing nodes of a topic if there are several; empty otherwise."""
    found = [end.node or "unnamed node" for end in ends if end.writes and end.type == kind.value]
    return f"{len(found)} nodes publish it: {', '.join(sorted(found))}" if len(found) > 1 else ""


class PublisherMonitor:
    """Monitors the publishers of the topics of readings, and further conditions of the graph.

    Args:
        transport: Source of the endpoints.
        topics: Topic → interface, for all readings.
        shared: Topics with several allowed publishers.
        checks: Further conditions, which come before that of the readings.
        now_s: Monotonic clock.
    """

    def __init__(
        self,
        transport: Transport,
        topics: Mapping[str, MsgType],
        shared: Iterable[str] = (),
        checks: Iterable[GraphCheck] = (),
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport, self._now_s, self._lock = transport, now_s, threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._topics = {topic: kind for topic, kind in topics.items() if topic not in {*shared}}
        self._checks = (
            *checks,
            GraphCheck("readings of several sources", self._find_rivals, REMEDY, "readings"),
        )
        self._found, self._answered_s = GraphProblems(), 0.0

    @property
    def problems(self) -> GraphProblems:
        """Problems of the last look; also that it is long ago, while looks are repeated."""
        ago_s = self._now_s() - self._answered_s
        if self._thread is None or self._over.is_set() or ago_s < _OVERDUE_S:
            return self._found
        return self._found._replace(readings=f"{_UNKNOWN}: a query hangs for {ago_s:.0f} s")

    def poll(self) -> str:
        """Query the graph; return all that is amiss, empty for nothing. Thread-safe."""
        self._find()
        return self.problems.text

    def demand(self, what: str) -> None:
        """Query the graph, and refuse a start if something is amiss. Thread-safe.

        Raises:
            RoboRlError: A condition does not hold, or an earlier query hangs.
        """
        try:
            found = self._find(_PATIENCE_S)
        except TimeoutError as error:
            hint = "request it again; restart the node if it goes on"
            raise RoboRlError(f"cannot {what}: {_UNKNOWN}, {error}", hint=hint) from None
        for check, why in found:
            raise RoboRlError(f"cannot {what}: {check.subject}", found=why, hint=check.remedy)

    @contextmanager
    def running(self) -> Generator[None]:
        """Query repeatedly in a thread of its own, inside the context.

        The context does not wait for a query at its end, since the robot still moves there.
        """
        self.close()
        self._answered_s = self._now_s()
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

    def _find(self, patience_s: float = -1.0) -> list[tuple[GraphCheck, str]]:
        """Query the graph; return the conditions that do not hold, each with what is amiss.

        Args:
            patience_s: Longest wait for another query; -1 for none.

        Raises:
            TimeoutError: Another query takes longer.
        """
        if not self._lock.acquire(timeout=patience_s):
            raise TimeoutError("a query hangs")
        try:
            graph = GraphSnapshot(self._transport)
            found = [(check, why) for check in self._checks if (why := check.find(graph))]
            by_kind = {
                kind: "; ".join(why for check, why in found if check.about == kind)
                for kind in GraphProblems._fields
            }
            self._found, self._answered_s = GraphProblems(**by_kind), self._now_s()
            return found
        finally:
            self._lock.release()

    def _find_rivals(self, graph: EndpointSource) -> str:
        found = {
            topic: competing_publishers(kind, graph.endpoints(topic))
            for topic, kind in self._topics.items()
        }
        return "; ".join(f"{topic}: {why}" for topic, why in found.items() if why)

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            try:
                self.poll()
            except Exception as error:  # an unknown graph is a problem
                why = f"{_UNKNOWN}: {type(error).__name__}: {error}"
                self._found, self._answered_s = self._found._replace(readings=why), self._now_s()
