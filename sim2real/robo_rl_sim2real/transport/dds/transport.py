"""ROS 2 topics over Cyclone DDS without an installation of ROS 2.

Names, types, type hashes and QoS are those of ROS 2 (``codec``, ``graph``). ``ros2 topic``, ``ros2
node`` and other nodes therefore see a ROS 2 node. By default nothing leaves this machine.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from cyclonedds.core import (
    InstanceState,
    ReadCondition,
    SampleState,
    ViewState,
    WaitSet,
)
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy
from cyclonedds.qos import Qos as DdsQos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl_sim2real.messages.kinds import MsgType, to_message, to_reading
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import (
    COMMAND,
    SEND_GOAL,
    SENSOR,
    Call,
    Endpoint,
    Publisher,
    Put,
    Qos,
    ServiceResponse,
)
from robo_rl_sim2real.transport.dds.codec import Codec
from robo_rl_sim2real.transport.dds.discovery import Discovery
from robo_rl_sim2real.transport.dds.goals import TrajectoryGoals
from robo_rl_sim2real.transport.dds.graph import Graph
from robo_rl_sim2real.transport.dds.services import Services
from robo_rl_sim2real.transport.publishers import ClosablePublisher
from robo_rl_sim2real.transport.warm_up import warm_up_type

_ONLY_HERE = """<CycloneDDS><Domain Id="any">
<General><Interfaces><NetworkInterface name="lo"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General>
<Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>60</MaxAutoParticipantIndex>
<Peers><Peer Address="127.0.0.1"/></Peers></Discovery>
<Sizing><ReceiveBufferSize>256 KiB</ReceiveBufferSize></Sizing></Domain></CycloneDDS>"""
"""Cyclone configuration for the local machine only, with small receive buffers.

A buffer stays resident until it is full. One of Cyclone's default 1 MiB buffers takes an hour to
fill with discovery messages.
"""

_domains: dict[int, Domain | None] = {}
"""Domain → its local-only configuration, None with network access; one choice per process."""
_WAIT_NS = 50_000_000
_MOST_AT_ONCE = 16
"""Samples of a topic that are taken before the other topics have their turn."""


class Dds:
    """A ROS 2 node without ROS 2; see ``Transport``.

    Args:
        cfg: See Config.
        node: Name of the node.
    """

    class Config(ConfigModel):
        """Domain and reach of the node.

        Args:
            domain: ROS_DOMAIN_ID.
            distro: ROS 2 distribution of the interfaces and graph messages.
            network: Whether the node communicates with other machines; then CYCLONEDDS_URI applies.
            services: Whether the node serves and calls services, in the framing of rmw_cyclonedds.
                Requires that every node of the graph runs rmw_cyclonedds.
            namespace: Namespace of the node.
        """

        domain: int = Field(default=0, ge=0, le=232)
        distro: str = "jazzy"
        network: bool = False
        services: bool = False
        namespace: str = "/"

    def __init__(self, cfg: Config, node: str) -> None:
        self.cfg, self.codec = cfg, Codec(cfg.distro)
        _join(cfg)
        self._participant = DomainParticipant(
            cfg.domain, qos=DdsQos(Policy.Userdata(b"enclave=/;"))
        )
        self._graph = Graph(self._participant, self.codec, node, cfg.namespace)
        self._services = Services(self._participant, self._graph, node, cfg.namespace)
        self._goals = TrajectoryGoals(self._participant, self._graph, self.codec)
        self._ears = dict[DataReader[Any], tuple[str, MsgType, Put]]()
        self._mouths: list[tuple[str, DataWriter[Any]]] = []
        self._outs: list[_TopicPublisher] = []
        self._bad: dict[str, str] = {}
        self._discovery: Discovery | None = None
        self._discovering = threading.Lock()
        self._lock = threading.Lock()
        self._waits, self._open = WaitSet(self._participant), True
        self._thread = threading.Thread(target=self._listen, name=f"dds {node}", daemon=True)
        self._thread.start()

    def subscribe(self, topic: str, kind: MsgType, put: Put, qos: Qos = SENSOR) -> None:
        """See ``Transport``."""
        named = self._topic(topic, kind)
        reader = DataReader(self._participant, named, qos=self._qos(kind, qos))
        every = SampleState.NotRead | ViewState.Any | InstanceState.Any
        with self._lock:
            self._ears[reader] = topic, kind, put
            self._waits.attach(ReadCondition(reader, every))
        self._graph.add_reader(reader)

    def create_publisher(self, topic: str, kind: MsgType, qos: Qos = COMMAND) -> Publisher:
        """See ``Transport``."""
        writer = DataWriter(self._participant, self._topic(topic, kind), qos=self._qos(kind, qos))
        self._mouths.append((topic, writer))
        self._graph.add_writer(writer)
        self._outs.append(_TopicPublisher(writer, kind, self.codec))
        return self._outs[-1]

    def create_goal_publisher(self, action: str) -> Publisher:
        """See ``Transport``; requires ``services``.

        Raises:
            ConfigError: Services are off.
        """
        self._demand_services(f"action '{action}'")
        return self._goals.create_goal_publisher(action)

    def create_goal_server(self, action: str, put: Put) -> None:
        """See ``Transport``; requires ``services``.

        Raises:
            ConfigError: Services are off.
        """
        self._demand_services(f"action '{action}'")
        self._goals.create_goal_server(action, put)

    def create_service(self, name: str, call: Call) -> None:
        """See ``Transport``; requires ``services``.

        Raises:
            ConfigError: Services are off, with the reason.
        """
        self._demand_services(f"service '{name}'")
        self._services.create_service(name, call)

    def call_service(self, name: str, patience_s: float = 2.0) -> ServiceResponse:
        """See ``Transport``.

        Raises:
            ConfigError: Services are off.
            RoboRlError: There is no response in time.
        """
        self._demand_services(f"service '{name}'")
        return self._services.call_service(name, patience_s)

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """See ``Transport``."""
        name = f"rq{topic}{SEND_GOAL}Request" if action else f"rt{topic}"
        with self._discovering:
            if self._discovery is None:
                self._discovery = Discovery(self._participant, self.codec)
            ends = self._discovery.endpoints(name)
        if not action:
            return ends
        return [end._replace(type=end.type.removesuffix("_SendGoal_Request")) for end in ends]

    def problems(self) -> list[str]:
        """See ``Transport``."""
        deaf = [] if self._thread.is_alive() or not self._open else ["the listening thread died"]
        with self._lock:
            ends = [(topic, reader, "requested") for reader, (topic, *_) in self._ears.items()]
            found = deaf + [f"{topic}: {what}" for topic, what in self._bad.items()]
        found += self._services.problems() + self._goals.problems()
        both = [*ends, *((topic, writer, "offered") for topic, writer in self._mouths)]
        for topic, end, side in both:
            status = getattr(end, f"get_{side}_incompatible_qos_status")()
            if status.total_count:
                found.append(
                    f"{topic}: {status.total_count} endpoints whose QoS do not match"
                    f" (policy {status.last_policy_id})"
                )
        return found

    def close(self) -> None:
        """See ``Transport``."""
        if not self._open:
            return
        self._open = False
        self._thread.join(timeout=2.0)
        self._services.close()
        self._goals.close()
        self._graph.leave()
        for out in self._outs:
            out.close()
        self._participant.__del__()  # deletes its entities too; garbage collection has no order
        self._discovery = None
        self._ears, self._mouths, self._outs = {}, [], []

    def _demand_services(self, what: str) -> None:
        if not self.cfg.services:
            raise ConfigError(
                f"{what}: the DDS transport has its services off",
                hint="requests in Cyclone's framing can exhaust a Fast DDS server's memory"
                " (ros2/rmw_cyclonedds issue 577); use topics, the ros2 transport, or, where every"
                " node runs rmw_cyclonedds, transport.services=true",
            )

    def _topic(self, topic: str, kind: MsgType) -> Topic[Any]:
        warm_up_type(self.codec.store, kind.value)
        return Topic(self._participant, f"rt{topic}", self.codec.wire_type(kind.value))

    def _qos(self, kind: MsgType, qos: Qos) -> DdsQos:
        policies = [
            Policy.Reliability.Reliable(duration(seconds=1))
            if qos.reliable
            else Policy.Reliability.BestEffort,
            Policy.Durability.TransientLocal if qos.latched else Policy.Durability.Volatile,
            Policy.History.KeepLast(qos.depth),
            Policy.WriterDataLifecycle(autodispose=False),
            Policy.Userdata(f"typehash={self.codec.type_hash(kind.value)};".encode()),
        ]
        if qos.latched:
            keep = Policy.History.KeepLast(qos.depth)
            policies.append(Policy.DurabilityService(duration(seconds=0), keep, -1, -1, -1))
        return DdsQos(*policies)

    def _listen(self) -> None:
        """Pass received messages to their subscribers until the transport is closed."""
        while self._open:
            with self._lock:
                ears = list(self._ears.items())
            if not ears:
                time.sleep(0.005)
                continue
            self._waits.wait(_WAIT_NS)
            for reader, (topic, kind, put) in ears:
                try:
                    self._take(reader, kind, put)
                except Exception as error:  # one bad message must not stop reception
                    with self._lock:
                        self._bad[topic] = f"{type(error).__name__}: {error}"

    def _take(self, reader: DataReader[Any], kind: MsgType, put: Put) -> None:
        """Pass on waiting samples one by one, so that a bad one does not take others with it.

        Raises:
            Exception: Of the last bad one.
        """
        bad: Exception | None = None
        for _ in range(_MOST_AT_ONCE):
            try:
                samples: list[Any] = reader.take(N=1)
                if not samples:
                    break
                if hasattr(samples[0], "message"):
                    reading = to_reading(kind, samples[0].message, time.monotonic())
                    put(reading._replace(wire=samples[0].wire))
            except Exception as error:  # one bad message must not stop reception
                bad = error
        if bad is not None:
            raise bad


def _join(cfg: Dds.Config) -> None:
    """Create the domain's configuration; the first node of a process decides its reach.

    Raises:
        ConfigError: The domain exists with another reach.
    """
    if cfg.domain not in _domains:
        _domains[cfg.domain] = None if cfg.network else Domain(cfg.domain, _ONLY_HERE)
    elif (_domains[cfg.domain] is None) != cfg.network:
        raise ConfigError(
            f"domain {cfg.domain} reaches otherwise in this process already",
            where="transport.network",
            found=cfg.network,
        )


class _TopicPublisher(ClosablePublisher[DataWriter[Any]]):
    """The publisher of a topic."""

    def __init__(self, writer: DataWriter[Any], kind: MsgType, codec: Codec) -> None:
        super().__init__(writer)
        self._kind, self._codec = kind, codec

    def _publish(self, end: DataWriter[Any], reading: Reading) -> None:
        message = to_message(self._kind, reading, self._codec.dialect)
        end.write(self._codec.wrap(self._kind.value, message))
