"""Client and server of FollowJointTrajectory goals over Cyclone DDS.

Of an action's three services and two topics, only the send-goal service is implemented. A client
that sends a new goal every control period needs neither feedback nor results. A new goal replaces
the previous one without a cancel request.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
from cyclonedds.domain import DomainParticipant

from robo_rl_sim2real.messages.kinds import MsgType, to_message, to_reading
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import SEND_GOAL, Put
from robo_rl_sim2real.transport.dds.action_interfaces import (
    GOAL,
    SEND,
    register_action_types,
    service_hash,
)
from robo_rl_sim2real.transport.dds.codec import Codec
from robo_rl_sim2real.transport.dds.framing import (
    ServiceEndpoints,
    ServiceInterface,
    ServiceServer,
    client_endpoints,
    take_samples,
)
from robo_rl_sim2real.transport.dds.graph import Graph
from robo_rl_sim2real.transport.publishers import GoalPublisher
from robo_rl_sim2real.transport.warm_up import blank_message, warm_up_type

_REQUEST, _RESPONSE = f"{SEND}_Request", f"{SEND}_Response"


class TrajectoryGoals:
    """The goal clients and servers of one node.

    Args:
        participant: DDS participant of the node.
        graph: ROS graph entry that lists the endpoints.
        codec: Codec of the distribution.
    """

    def __init__(self, participant: DomainParticipant, graph: Graph, codec: Codec) -> None:
        self._participant, self._graph, self._codec = participant, graph, codec
        self._pursuits: list[GoalWriter] = []
        self._servers: list[ServiceServer] = []
        self._bad = dict[str, str]()

    def create_goal_publisher(self, action: str) -> GoalWriter:
        """See ``Transport``."""
        ends = client_endpoints(self._participant, f"{action}{SEND_GOAL}", self._interface())
        self._name(*ends)
        self._pursuits.append(GoalWriter(action, ends, self._codec))
        return self._pursuits[-1]

    def create_goal_server(self, action: str, put: Put) -> None:
        """See ``Transport``."""

        def reply(request: Any) -> Any:
            trajectory, accepted = request.message.goal.trajectory, True
            try:
                put(to_reading(MsgType.TRAJECTORY, trajectory, time.monotonic()))
            except Exception as error:  # the client and ``problems`` both report the error
                accepted, self._bad[action] = False, f"{type(error).__name__}: {error}"
            found = replace(blank_message(self._codec.store, _RESPONSE), accepted=accepted)
            return self._codec.frame(_RESPONSE, request.guid, request.seq, found)

        name = f"{action}{SEND_GOAL}"
        server = ServiceServer(self._participant, name, self._interface(), reply)
        self._servers.append(server)
        self._name(server.reader, server.writer)

    def problems(self) -> list[str]:
        """Return the problems with sent goals and with received goals."""
        bad = [
            f"{pursuit.action}: {why}" for pursuit in self._pursuits if (why := pursuit.status())
        ]
        bad += [f"{action}: {why}" for action, why in self._bad.items()]
        return bad + [f"{server.name}: {server.bad}" for server in self._servers if server.bad]

    def close(self) -> None:
        """Stop sending and accepting goals."""
        for end in (*self._servers, *self._pursuits):
            end.close()
        self._servers, self._pursuits = [], []

    def _interface(self) -> ServiceInterface:
        codec = self._codec
        register_action_types(codec.store)
        for name in (_REQUEST, _RESPONSE):
            warm_up_type(codec.store, name)
        return ServiceInterface(
            codec.framed(_REQUEST), codec.framed(_RESPONSE), service_hash(codec.store)
        )

    def _name(self, reader: Any, writer: Any) -> None:
        self._graph.add_reader(reader)
        self._graph.add_writer(writer)


class GoalWriter(GoalPublisher[ServiceEndpoints]):
    """A publisher of goals.

    Args:
        action: Name of the action.
        ends: Endpoints of the send-goal service.
        codec: Codec of the distribution.
    """

    def __init__(self, action: str, ends: ServiceEndpoints, codec: Codec) -> None:
        super().__init__(action, ends)
        self._codec = codec
        self._guid, self._numbers = secrets.randbits(63), itertools.count(1)
        self._lock = threading.Lock()  # any thread may call ``status``
        self._goal = blank_message(codec.store, GOAL)

    def _publish(self, end: ServiceEndpoints, reading: Reading) -> None:
        types = self._codec.store.types
        trajectory = to_message(MsgType.TRAJECTORY, reading, self._codec.dialect)
        uuid = np.frombuffer(secrets.token_bytes(16), np.uint8)
        goal_id = types["unique_identifier_msgs/msg/UUID"](uuid=uuid)
        goal = types[_REQUEST](goal_id=goal_id, goal=replace(self._goal, trajectory=trajectory))
        end.writer.write(self._codec.frame(_REQUEST, self._guid, next(self._numbers), goal))
        self._sent += 1

    def _hear(self, end: ServiceEndpoints) -> None:
        with self._lock:
            answers = [found for found in take_samples(end.reader) if found.guid == self._guid]
            self._refused += sum(not found.message.accepted for found in answers)

    def _has_taker(self, end: ServiceEndpoints) -> bool:
        return bool(end.writer.get_matched_subscriptions())
