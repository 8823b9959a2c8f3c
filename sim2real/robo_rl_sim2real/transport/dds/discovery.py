"""Discovery of publishers, subscribers and their ROS 2 nodes on DDS's built-in topics."""

from __future__ import annotations

from typing import Any

from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
    DcpsEndpoint,
)
from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.domain import DomainParticipant
from cyclonedds.qos import Policy
from cyclonedds.qos import Qos as DdsQos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from robo_rl_sim2real.transport.base import Endpoint, Qos
from robo_rl_sim2real.transport.dds.codec import Codec
from robo_rl_sim2real.transport.dds.graph import INFO

_ALIVE = SampleState.Any | ViewState.Any | InstanceState.Alive
_GUID_BYTES = 16
_MANY = 4096


class Discovery:
    """The endpoints that a participant has discovered.

    Node names arrive shortly after their endpoints.

    Args:
        participant: Participant whose own endpoints are excluded.
        codec: Codec of the distribution.
    """

    def __init__(self, participant: DomainParticipant, codec: Codec) -> None:
        self._ours, self._names = participant.guid, dict[bytes, str]()
        self._ends = [
            (writes, BuiltinDataReader(participant, topic))
            for writes, topic in (
                (True, BuiltinTopicDcpsPublication),
                (False, BuiltinTopicDcpsSubscription),
            )
        ]
        self._alive = [ReadCondition(reader, _ALIVE) for _, reader in self._ends]
        qos = DdsQos(
            Policy.Reliability.Reliable(duration(seconds=1)),
            Policy.Durability.TransientLocal,
            Policy.History.KeepAll,
        )
        topic = Topic(participant, "ros_discovery_info", codec.wire_type(INFO))
        self._nodes = DataReader(participant, topic, qos=qos)

    def endpoints(self, topic: str) -> list[Endpoint]:
        """Return the other participants' endpoints on a topic, given by its DDS name."""
        self._update_node_names()
        found = list[Endpoint]()
        for (writes, reader), alive in zip(self._ends, self._alive, strict=True):
            for end in reader.read(_MANY, condition=alive):
                if end.topic_name == topic and end.participant_key != self._ours:
                    name = self._names.get(end.key.bytes, "")
                    found.append(Endpoint(name, ros_type(end.type_name), writes, _qos(end)))
        return found

    def _update_node_names(self) -> None:
        samples: list[Any] = self._nodes.take(_MANY)
        for sample in samples:
            if not hasattr(sample, "message"):
                continue
            for node in sample.message.node_entities_info_seq:
                name = f"{node.node_namespace.rstrip('/')}/{node.node_name}"
                for gid in (*node.reader_gid_seq, *node.writer_gid_seq):
                    self._names[bytes(gid.data[:_GUID_BYTES])] = name


def ros_type(name: str) -> str:
    """Return ``std_msgs::msg::dds_::Bool_`` as ``std_msgs/msg/Bool``; other names unchanged."""
    parts = name.split("::")
    if len(parts) != 4 or parts[2] != "dds_":
        return name
    return f"{parts[0]}/{parts[1]}/{parts[3].removesuffix('_')}"


def _qos(end: DcpsEndpoint) -> Qos:
    """Return the QoS of an endpoint; missing policies have DDS's defaults, the depth is ignored."""
    said = end.qos
    reliable = (
        Policy.Reliability in said and said[Policy.Reliability] != Policy.Reliability.BestEffort
    )
    latched = Policy.Durability in said and said[Policy.Durability] != Policy.Durability.Volatile
    return Qos(reliable, latched)
