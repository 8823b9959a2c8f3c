"""Conditions of the graph of nodes and topics, and the snapshot of the graph that they judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from robo_rl_sim2real.transport.base import Endpoint


class EndpointSource(Protocol):
    """Source of the endpoints of a topic, such as a ``Transport`` or a ``GraphSnapshot``."""

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """See ``Transport``."""
        ...


class GraphSnapshot:
    """The graph of one look: each topic is queried at its first use, and once.

    Several checks of one topic judge the same endpoints, so that their verdicts agree.

    Args:
        source: Source of the endpoints.
    """

    def __init__(self, source: EndpointSource) -> None:
        self._source = source
        self._seen: dict[tuple[str, bool], list[Endpoint]] = {}

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """See ``Transport``."""
        key = (topic, action)
        if key not in self._seen:
            self._seen[key] = self._source.endpoints(topic, action=action)
        return self._seen[key]


class GraphCheck(NamedTuple):
    """A condition of the graph without which the robot does not move.

    Args:
        subject: What is amiss if the condition does not hold, in a refusal.
        find: Judges a graph; returns what is amiss, with its topic, and empty for nothing.
        remedy: What to do about it.
        about: Field of ``GraphProblems`` that holds what is amiss.
    """

    subject: str
    find: Callable[[EndpointSource], str]
    remedy: str
    about: Literal["readings", "commands", "others"] = "others"
