"""Services of type std_srvs/srv/Trigger over Cyclone DDS, in the framing of rmw_cyclonedds.

A service is two topics. Before the request stand who asks and which of its requests it is; the
answer repeats both. Which reader belongs to which writer is said in their USER_DATA, so that
nothing is answered before the answer can be heard.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.types import int64, uint8, uint64
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from robo_rl_sim2real.transport.base import Call, Reply, answer, full_name, nobody
from robo_rl_sim2real.transport.graph import Graph

TRIGGER_HASH = "RIHS01_eeff2cd6fa5ad9d27cdf4dec64818317839b62f212a91e6b5304b634b2062c5f"
"""Of std_srvs/srv/Trigger (REP 2016); the same in every distribution that has hashes."""

_WAIT_NS, _HEARD_S, _POLL_S = 100_000_000, 0.1, 0.002
_ANY = SampleState.NotRead | ViewState.Any | InstanceState.Any


_Request: Any = make_idl_struct(
    "Trigger_Request_",
    "std_srvs::srv::dds_::Trigger_Request_",
    {"guid": uint64, "seq": int64, "structure_needs_at_least_one_member": uint8},
)
"""Nothing is asked but that something be done; IDL has no empty structures."""

_Response: Any = make_idl_struct(
    "Trigger_Response_",
    "std_srvs::srv::dds_::Trigger_Response_",
    {"guid": uint64, "seq": int64, "success": bool, "message": str},
)


class Services:
    """One node's services, and its questions to those of others.

    Args:
        participant: The node's.
        graph: In which its endpoints are named.
        node: Its name.
        namespace: And its namespace.
    """

    def __init__(
        self, participant: DomainParticipant, graph: Graph, node: str, namespace: str
    ) -> None:
        self._participant, self._graph = participant, graph
        self._node, self._namespace = node, namespace
        self._servers: list[_Server] = []

    def serve(self, name: str, call: Call) -> None:
        """Answer a service, in a thread of its own."""
        name = full_name(name, self._node, self._namespace)
        server = _Server(self._participant, name, call)
        self._servers.append(server)
        self._graph.add_reader(server.reader)
        self._graph.add_writer(server.writer)

    def call(self, name: str, patience_s: float) -> Reply:
        """Ask a service of anybody's.

        Raises:
            RoboRlError: Nobody answered in time.
        """
        return ask(self._participant, full_name(name, self._node, self._namespace), patience_s)

    def problems(self) -> list[str]:
        """What was wrong with requests."""
        return [f"{server.name}: {server.bad}" for server in self._servers if server.bad]

    def close(self) -> None:
        """Answer no more."""
        for server in self._servers:
            server.close()
        self._servers = []


class _Server:
    def __init__(self, participant: DomainParticipant, name: str, call: Call) -> None:
        self.name, self.bad, self._call, self._open = name, "", call, True
        requests, responses = _topics(participant, name)
        qos = _qos("serviceid", secrets.token_bytes(16))
        self.reader = DataReader(participant, requests, qos=qos)
        self.writer = DataWriter(participant, responses, qos=qos)
        self._thread = threading.Thread(target=self._serve, name=f"service {name}", daemon=True)
        self._waits = _waits(participant, self.reader)
        self._thread.start()

    def close(self) -> None:
        self._open = False
        self._thread.join(timeout=2.0)

    def _serve(self) -> None:
        while self._open:
            self._waits.wait(_WAIT_NS)
            try:
                for request in _taken(self.reader):
                    self._answer(request)
            except Exception as error:  # one bad request must not end the service
                self.bad = f"{type(error).__name__}: {error}"

    def _answer(self, request: Any) -> None:
        reply = answer(self._call)
        self._wait_for_reader(request)
        echo = {"guid": request.guid, "seq": request.seq}
        self.writer.write(_Response(**echo, success=reply.success, message=reply.message))

    def _wait_for_reader(self, request: Any) -> None:
        """Until the reader of who asked is known: an answer before that would be lost."""
        handle = request.sample_info.publication_handle
        client = _identity(self.reader.get_matched_publication_data(handle))
        _until(lambda: client in _readers_of(self.writer), _HEARD_S)


def ask(participant: DomainParticipant, name: str, patience_s: float) -> Reply:
    """Ask a service and wait for its answer.

    Args:
        participant: Whose question it is.
        name: Full name of the service.
        patience_s: How long to wait, for the server to be found too.

    Raises:
        RoboRlError: Nobody answered in time.
    """
    requests, responses = _topics(participant, name)
    qos, guid, seq = _qos("clientid", secrets.token_bytes(16)), secrets.randbits(63), next(_numbers)
    reader = DataReader(participant, responses, qos=qos)
    writer = DataWriter(participant, requests, qos=qos)
    until_s = time.monotonic() + patience_s
    _until(
        lambda: writer.get_matched_subscriptions() and reader.get_matched_publications(), patience_s
    )
    writer.write(_Request(guid=guid, seq=seq, structure_needs_at_least_one_member=0))
    found = _until(
        lambda: [r for r in _taken(reader) if (r.guid, r.seq) == (guid, seq)],
        until_s - time.monotonic(),
    )
    if not found:
        raise nobody(name, patience_s)
    return Reply(bool(found[0].success), found[0].message)


_numbers = itertools.count(1)
_Found = TypeVar("_Found")


def _until(look: Callable[[], _Found], patience_s: float) -> _Found:
    """What is found once it is true, or when there is no more time."""
    until_s = time.monotonic() + patience_s
    while not (found := look()) and time.monotonic() < until_s:
        time.sleep(_POLL_S)
    return found


def _taken(reader: DataReader[Any]) -> list[Any]:
    """What came, one by one, so that a bad one takes no other with it."""
    found: list[Any] = []
    while samples := reader.take(N=1):
        found += [sample for sample in samples if hasattr(sample, "guid")]
    return found


def _topics(participant: DomainParticipant, name: str) -> tuple[Topic[Any], Topic[Any]]:
    return (
        Topic(participant, f"rq{name}Request", _Request),
        Topic(participant, f"rr{name}Reply", _Response),
    )


def _qos(role: str, identity: bytes) -> Qos:
    dotted = ".".join(f"{byte:x}" for byte in identity)
    return Qos(
        Policy.Reliability.Reliable(duration(seconds=1)),
        Policy.Durability.Volatile,
        Policy.History.KeepLast(10),
        Policy.WriterDataLifecycle(autodispose=False),
        Policy.Userdata(f"{role}={dotted};typehash={TRIGGER_HASH};".encode()),
    )


def _waits(participant: DomainParticipant, reader: DataReader[Any]) -> WaitSet:
    waits = WaitSet(participant)
    waits.attach(ReadCondition(reader, _ANY))
    return waits


def _readers_of(writer: DataWriter[Any]) -> list[str]:
    handles = writer.get_matched_subscriptions()
    return [_identity(writer.get_matched_subscription_data(handle)) for handle in handles]


def _identity(endpoint: Any) -> str:
    """What an endpoint says of whose it is; empty where it says nothing, or is gone."""
    data = None if endpoint is None else endpoint.qos[Policy.Userdata]
    text = "" if data is None else bytes(data.data).decode(errors="replace")
    said = next((part for part in text.split(";") if part.startswith("clientid=")), "")
    return said.removeprefix("clientid=")
