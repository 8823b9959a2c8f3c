"""Entry of a node in the ROS graph, published on ``ros_discovery_info`` for ``ros2 node``."""

from __future__ import annotations

from typing import Any

import numpy as np
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from robo_rl_sim2real.transport.dds.codec import GID_BYTES, Codec

INFO = "rmw_dds_common/msg/ParticipantEntitiesInfo"
"""Interface of ``ros_discovery_info``."""

_NODE = "rmw_dds_common/msg/NodeEntitiesInfo"
_GID = "rmw_dds_common/msg/Gid"


class Graph:
    """One node's entry in the graph, republished with every new endpoint.

    Args:
        participant: DDS participant of the node.
        codec: Codec of the distribution, which determines the length of identifiers.
        node: Name of the node.
        namespace: Namespace of the node.
    """

    def __init__(
        self, participant: DomainParticipant, codec: Codec, node: str, namespace: str
    ) -> None:
        self._participant, self._codec = participant, codec
        self._node, self._namespace = node, namespace
        self._readers, self._writers = list[Any](), list[Any]()
        keep = Policy.History.KeepLast(1)
        qos = Qos(
            Policy.Reliability.Reliable(duration(seconds=1)),
            Policy.Durability.TransientLocal,
            keep,
            Policy.DurabilityService(duration(seconds=0), keep, -1, -1, -1),
            Policy.WriterDataLifecycle(autodispose=False),
            Policy.Userdata(f"typehash={codec.type_hash(INFO)};".encode()),
        )
        topic = Topic(participant, "ros_discovery_info", codec.wire_type(INFO))
        self._writer = DataWriter(participant, topic, qos=qos)
        self._say()

    def add_reader(self, reader: DataReader[Any]) -> None:
        """Add a reader to the node's entry."""
        self._readers.append(self._gid(reader))
        self._say()

    def add_writer(self, writer: DataWriter[Any]) -> None:
        """Add a writer to the node's entry."""
        self._writers.append(self._gid(writer))
        self._say()

    def leave(self) -> None:
        """Remove the node from the graph."""
        self._say(nodes=[])

    def _say(self, nodes: list[Any] | None = None) -> None:
        types = self._codec.store.types
        if nodes is None:
            nodes = [
                types[_NODE](
                    node_namespace=self._namespace,
                    node_name=self._node,
                    reader_gid_seq=self._readers,
                    writer_gid_seq=self._writers,
                )
            ]
        info = types[INFO](gid=self._gid(self._participant), node_entities_info_seq=nodes)
        self._writer.write(self._codec.wrap(INFO, info))

    def _gid(self, entity: Any) -> Any:
        """Return an endpoint's identifier, padded with zeros to the distribution's length."""
        data = np.zeros(GID_BYTES[self._codec.distro], np.uint8)
        found = np.frombuffer(entity.guid.bytes, np.uint8)
        data[: len(found)] = found
        return self._codec.store.types[_GID](data=data)
