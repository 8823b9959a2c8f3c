"""Services of type std_srvs/srv/Trigger over Cyclone DDS; see ``framing``."""

from __future__ import annotations

import itertools
import secrets
import time
from typing import Any

from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import make_idl_struct
from cyclonedds.idl.types import int64, uint8, uint64

from robo_rl_sim2real.transport.base import (
    Call,
    ServiceResponse,
    full_name,
    no_service_message,
    service_response,
)
from robo_rl_sim2real.transport.dds.framing import (
    ServiceInterface,
    ServiceServer,
    client_endpoints,
    take_samples,
    wait_until,
)
from robo_rl_sim2real.transport.dds.graph import Graph

TRIGGER_HASH = "RIHS01_eeff2cd6fa5ad9d27cdf4dec64818317839b62f212a91e6b5304b634b2062c5f"
"""Type hash of std_srvs/srv/Trigger (REP 2016), the same in every distribution with hashes."""

_Request: Any = make_idl_struct(
    "Trigger_Request_",
    "std_srvs::srv::dds_::Trigger_Request_",
    {"guid": uint64, "seq": int64, "structure_needs_at_least_one_member": uint8},
)
"""The empty request with its framing; IDL has no empty structures."""

_Response: Any = make_idl_struct(
    "Trigger_Response_",
    "std_srvs::srv::dds_::Trigger_Response_",
    {"guid": uint64, "seq": int64, "success": bool, "message": str},
)

_TRIGGER = ServiceInterface(_Request, _Response, TRIGGER_HASH)


class Services:
    """One node's services, and its calls of other nodes' services.

    Args:
        participant: DDS participant of the node.
        graph: ROS graph entry that lists the endpoints.
        node: Name of the node.
        namespace: Namespace of the node.
    """

    def __init__(
        self, participant: DomainParticipant, graph: Graph, node: str, namespace: str
    ) -> None:
        self._participant, self._graph = participant, graph
        self._node, self._namespace = node, namespace
        self._servers: list[ServiceServer] = []

    def create_service(self, name: str, call: Call) -> None:
        """Serve a service in a thread of its own."""

        def reply(request: Any) -> Any:
            found = service_response(call)
            echo = {"guid": request.guid, "seq": request.seq}
            return _Response(**echo, success=found.success, message=found.message)

        name = full_name(name, self._node, self._namespace)
        server = ServiceServer(self._participant, name, _TRIGGER, reply)
        self._servers.append(server)
        self._graph.add_reader(server.reader)
        self._graph.add_writer(server.writer)

    def call_service(self, name: str, patience_s: float) -> ServiceResponse:
        """Call a service of any node.

        Raises:
            RoboRlError: There is no response in time.
        """
        return call_service(
            self._participant, full_name(name, self._node, self._namespace), patience_s
        )

    def problems(self) -> list[str]:
        """Return the problems with received requests."""
        return [f"{server.name}: {server.bad}" for server in self._servers if server.bad]

    def close(self) -> None:
        """Stop serving."""
        for server in self._servers:
            server.close()
        self._servers = []


def call_service(participant: DomainParticipant, name: str, patience_s: float) -> ServiceResponse:
    """Call a service and wait for its response.

    Args:
        participant: DDS participant of the client.
        name: Full name of the service.
        patience_s: Time limit, including the discovery of the server.

    Raises:
        RoboRlError: There is no response in time.
    """
    guid, seq = secrets.randbits(63), next(_numbers)
    reader, writer = client_endpoints(participant, name, _TRIGGER)
    until_s = time.monotonic() + patience_s
    wait_until(
        lambda: writer.get_matched_subscriptions() and reader.get_matched_publications(), patience_s
    )
    writer.write(_Request(guid=guid, seq=seq, structure_needs_at_least_one_member=0))
    found = wait_until(
        lambda: [r for r in take_samples(reader) if (r.guid, r.seq) == (guid, seq)],
        until_s - time.monotonic(),
    )
    if not found:
        raise no_service_message(name, patience_s)
    return ServiceResponse(bool(found[0].success), found[0].message)


_numbers = itertools.count(1)
