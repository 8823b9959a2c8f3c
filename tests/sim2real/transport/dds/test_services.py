"""Services over DDS as rmw_cyclonedds frames them; what is broken does not end a server."""

from __future__ import annotations

import itertools
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pytest
from small_domains import free_domain

pytest.importorskip("cyclonedds", reason="pip install 'robo-rl[dds]'")

from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.transport.base import ServiceResponse
from robo_rl_sim2real.transport.dds import framing as dds_framing
from robo_rl_sim2real.transport.dds import services as dds_services
from robo_rl_sim2real.transport.dds.transport import Dds

SERVER = """
import sys
from robo_rl_sim2real.transport.base import ServiceResponse
from robo_rl_sim2real.transport.dds.transport import Dds

server = Dds(Dds.Config(domain=int(sys.argv[1]), services=True), "arm")
def call():
    print("asked", flush=True)
    return ServiceResponse(True, "from another process")

server.create_service("~/reset", call)
print("ready", flush=True)
sys.stdin.read()
server.close()
"""


@pytest.fixture
def domain() -> int:
    return free_domain()


@pytest.fixture
def pair(domain: int) -> Iterator[tuple[Dds, Dds]]:
    """A server of ``/arm/reset``, and a client."""
    cfg = Dds.Config(domain=domain, services=True)
    server, client = Dds(cfg, "arm"), Dds(cfg, "client")
    server.create_service("~/reset", lambda: ServiceResponse(True, "reset"))
    yield server, client
    client.close()
    server.close()


class Forger:
    """Sends packets in the name of a client that has not said anything yet.

    Cyclone does not let a malformed sample out, so they are RTPS by hand (OMG DDSI-RTPS 2.5, 8.3).
    """

    def __init__(self, domain: int) -> None:
        self._participant = DomainParticipant(domain)
        topic = Topic(self._participant, "rq/arm/resetRequest", dds_services._Request)
        qos = dds_framing._qos(dds_framing._identity_text("clientid", ""))
        self._writer = DataWriter(self._participant, topic, qos=qos)
        dds_framing.wait_until(self._writer.get_matched_subscriptions, 10.0)
        assert self._writer.get_matched_subscriptions()
        self._ports = [7400 + 250 * domain + 10 + index for index in range(16)]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, payload: bytes, number: int) -> None:
        """As its sample of that number."""
        guid = self._writer.guid.bytes
        payload += b"\0" * (-len(payload) % 4)
        data = struct.pack("<HH4s4siI", 0, 16, bytes(4), guid[12:], 0, number) + payload
        packet = (
            b"RTPS\x02\x01\x01\x10" + guid[:12] + struct.pack("<BBH", 0x15, 5, len(data)) + data
        )
        for port in self._ports:
            self._socket.sendto(packet, ("127.0.0.1", port))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server(domain: int) -> Iterator[IO[str]]:
    """A server of ``/arm/reset`` in another process; says ``asked`` for every request."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(domain)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process.stdout
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_server_in_another_process_answers(server: IO[str], domain: int):
    client = Dds(Dds.Config(domain=domain, services=True), "client")
    assert client.call_service("/arm/reset", 10.0) == ServiceResponse(True, "from another process")
    client.close()


def test_broken_requests_do_not_end_the_server(server: IO[str], domain: int):
    client = Dds(Dds.Config(domain=domain, services=True), "client")  # keeps us on this machine
    forger, random = Forger(domain), np.random.default_rng(0)
    for number in range(1, 40):  # too short for a request, or without a header
        forger.send(b"\0\1\0\0" + random.bytes(number % 17), number)
        forger.send(b"\xff" + random.bytes(5 * number), number)
    for _ in range(100):  # packets get lost, and a reliable reader waits for what it has missed
        for number in range(1, 60):  # what was not counted as a sample can still be one
            forger.send(b"\0\1\0\0" + struct.pack("<QqB", 7, number, 0), number)
        if asked := select.select([server], [], [], 0.3)[0]:  # so what was before it came too
            break
    assert asked
    assert client.call_service("/arm/reset", 30.0) == ServiceResponse(True, "from another process")
    forger.close()
    client.close()


def test_many_clients_get_each_their_own_answer(pair: tuple[Dds, Dds]):
    server, client = pair
    told = itertools.count(1)
    server.create_service("~/count", lambda: ServiceResponse(True, str(next(told))))
    found = [int(client.call_service("/arm/count", 10.0).message) for _ in range(20)]
    assert found == list(range(1, 21))


def test_it_is_off_unless_asked_for_and_says_why(domain: int):
    transport = Dds(Dds.Config(domain=domain), "arm")
    why = r"issue 577.*transport.services=true"
    with pytest.raises(ConfigError, match=why):
        transport.create_service("~/reset", lambda: ServiceResponse(True, ""))
    with pytest.raises(ConfigError, match=why):
        transport.call_service("/arm/reset")
    transport.close()


def test_bytes_on_the_wire_are_who_asks_which_request_and_the_body():
    request = dds_services._Request(guid=7, seq=-2, structure_needs_at_least_one_member=0)
    assert request.serialize() == b"\0\1\0\0" + struct.pack("<QqB", 7, -2, 0)
    response = dds_services._Response(guid=7, seq=-2, success=True, message="hi")
    body = struct.pack("<Qq?xxxI", 7, -2, True, 3) + b"hi\0"
    assert response.serialize() == b"\0\1\0\0" + body


def test_names_are_those_of_ros(pair: tuple[Dds, Dds], domain: int):
    participant = DomainParticipant(domain)
    from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsSubscription

    reader = BuiltinDataReader(participant, BuiltinTopicDcpsSubscription)

    def found() -> list[Any]:
        return [end for end in reader.read(N=100) if end.topic_name == "rq/arm/resetRequest"]

    (end,) = dds_framing.wait_until(found, 10.0)
    assert end.type_name == "std_srvs::srv::dds_::Trigger_Request_"
    said = bytes(end.qos[Policy.Userdata].data).decode()
    assert said.startswith("serviceid=")
    assert said.endswith(f";typehash={dds_services.TRIGGER_HASH};")
    assert len(said.partition(";")[0].removeprefix("serviceid=").split(".")) == 16
    assert isinstance(reader, DataReader)
