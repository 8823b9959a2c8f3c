"""Framing of services over Cyclone DDS, compatible with rmw_cyclonedds.

A service consists of two topics. A request starts with the client's guid and the request's sequence
number; the response repeats both. The endpoints' USER_DATA pairs a client's reader with its writer.
The server responds only after the client's reader is matched.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

_WAIT_NS, _HEARD_S, _POLL_S = 100_000_000, 0.1, 0.002
_KEPT_ANSWERS = 1000
"""Answers that wait for a client, which may send a goal every millisecond and look twice a second.

Of a controller that refuses all goals, lost answers would hide the refusals.
"""
_ANY = SampleState.NotRead | ViewState.Any | InstanceState.Any
_Found = TypeVar("_Found")


class ServiceInterface(NamedTuple):
    """Types of a service.

    Args:
        request: Type of the request in cyclonedds; samples have ``guid`` and ``seq``.
        response: Type of the response in cyclonedds; samples have ``guid`` and ``seq``.
        typehash: ``RIHS01_…``; empty without one.
    """

    request: Any
    response: Any
    typehash: str


class ServiceEndpoints(NamedTuple):
    """The reader and writer of one side of a service."""

    reader: DataReader[Any]
    writer: DataWriter[Any]


def client_endpoints(
    participant: DomainParticipant, name: str, interface: ServiceInterface
) -> ServiceEndpoints:
    """Return the reader and writer of a client."""
    said = _identity_text("clientid", interface.typehash)
    requests, responses = _topics(participant, name, interface)
    return ServiceEndpoints(
        DataReader(participant, responses, _qos(said, _KEPT_ANSWERS)),
        DataWriter(participant, requests, _qos(said)),
    )


class ServiceServer:
    """Serves a service in a thread of its own.

    Args:
        participant: DDS participant of the server.
        name: Full name of the service.
        interface: Its types.
        reply: Maps a request to its response, with the same ``guid`` and ``seq``.
    """

    def __init__(
        self,
        participant: DomainParticipant,
        name: str,
        interface: ServiceInterface,
        reply: Callable[[Any], Any],
    ) -> None:
        self.name, self.bad, self._reply, self._open = name, "", reply, True
        qos = _qos(_identity_text("serviceid", interface.typehash))
        requests, responses = _topics(participant, name, interface)
        self.reader = DataReader(participant, requests, qos)
        self.writer = DataWriter(participant, responses, qos)
        self._thread = threading.Thread(target=self._serve, name=f"service {name}", daemon=True)
        self._waits = WaitSet(participant)
        self._waits.attach(ReadCondition(self.reader, _ANY))
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._open = False
        self._thread.join(timeout=2.0)

    def _serve(self) -> None:
        while self._open:
            self._waits.wait(_WAIT_NS)
            for request in self._asked():
                self._guarded(lambda request=request: self._answer(request))

    def _asked(self) -> list[Any]:
        found: list[Any] = []
        self._guarded(lambda: found.extend(take_samples(self.reader)))
        return found

    def _answer(self, request: Any) -> None:
        reply = self._reply(request)
        self._wait_for_reader(request)
        self.writer.write(reply)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # one bad request must not end the service
            self.bad = f"{type(error).__name__}: {error}"

    def _wait_for_reader(self, request: Any) -> None:
        """Wait until the client's reader is matched; an earlier response would be lost."""
        handle = request.sample_info.publication_handle
        client = _identity(self.reader.get_matched_publication_data(handle))
        wait_until(lambda: client in _readers_of(self.writer), _HEARD_S)


def wait_until(look: Callable[[], _Found], patience_s: float) -> _Found:
    """Poll ``look`` until its result is true or the time is over; return the last result."""
    until_s = time.monotonic() + patience_s
    while not (found := look()) and time.monotonic() < until_s:
        time.sleep(_POLL_S)
    return found


def take_samples(reader: DataReader[Any]) -> list[Any]:
    """Take the samples one by one, so that a bad one does not affect the others."""
    found: list[Any] = []
    while samples := reader.take(N=1):
        found += [sample for sample in samples if hasattr(sample, "guid")]
    return found


def _topics(
    participant: DomainParticipant, name: str, interface: ServiceInterface
) -> tuple[Topic[Any], Topic[Any]]:
    return (
        Topic(participant, f"rq{name}Request", interface.request),
        Topic(participant, f"rr{name}Reply", interface.response),
    )


def _identity_text(role: str, typehash: str) -> str:
    """Return the USER_DATA of both endpoints of one side of a service."""
    dotted = ".".join(f"{byte:x}" for byte in secrets.token_bytes(16))
    return f"{role}={dotted};" + (f"typehash={typehash};" if typehash else "")


def _qos(said: str, depth: int = 10) -> Qos:
    return Qos(
        Policy.Reliability.Reliable(duration(seconds=1)),
        Policy.Durability.Volatile,
        Policy.History.KeepLast(depth),
        Policy.WriterDataLifecycle(autodispose=False),
        Policy.Userdata(said.encode()),
    )


def _readers_of(writer: DataWriter[Any]) -> list[str]:
    handles = writer.get_matched_subscriptions()
    return [_identity(writer.get_matched_subscription_data(handle)) for handle in handles]


def _identity(endpoint: Any) -> str:
    """Return the client id in an endpoint's USER_DATA; empty without one, or if it is gone."""
    data = None if endpoint is None else endpoint.qos[Policy.Userdata]
    text = "" if data is None else bytes(data.data).decode(errors="replace")
    said = next((part for part in text.split(";") if part.startswith("clientid=")), "")
    return said.removeprefix("clientid=")
