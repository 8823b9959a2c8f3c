"""The interface between the deployment node and its transports.

Times are in seconds of the machine's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

POLICY = "robo_rl"
"""Default name of the policy's node; the nodes beside it are named ``robo_rl_…``."""

SEND_GOAL = "/_action/send_goal"
"""Suffix that turns an action's name into the name of its send-goal service."""

NO_TAKER = "no node accepts goals"
"""The problem that a goal publisher reports while the action has no server."""

Put = Callable[[Reading], None]
Call = Callable[[], "ServiceResponse"]
Ask = Callable[[str], "ServiceResponse"]
"""Requests a lifecycle change by name; blocks until the change is granted or refused."""


class ServiceResponse(NamedTuple):
    """The response of a service of type std_srvs/srv/Trigger: success flag and message."""

    success: bool
    message: str


class Qos(NamedTuple):
    """Quality of service.

    Args:
        reliable: Whether lost messages are sent again. A reliable subscriber receives nothing from
            a best-effort publisher.
        latched: Whether a late subscriber receives the last messages (transient local durability).
        depth: Number of messages that are kept.
    """

    reliable: bool = True
    latched: bool = False
    depth: int = 1


SENSOR = Qos(reliable=False)
"""For readings: best effort, the newest only. It matches best-effort and reliable publishers."""

COMMAND = Qos(depth=10)
"""Reliable with a queue of 10: requests and the emergency stop."""

NEWEST = Qos()
"""Reliable, the newest message only: commands."""

LATCHED = Qos(latched=True)
"""Reliable and kept for late subscribers: states and descriptions."""


class Endpoint(NamedTuple):
    """A publisher or subscriber of another node on a topic.

    Args:
        node: Full name of its node, with the namespace; empty if unknown.
        type: Interface, such as ``sensor_msgs/msg/JointState``.
        writes: True for a publisher, False for a subscriber.
        qos: Its quality of service.
    """

    node: str
    type: str
    writes: bool
    qos: Qos


def qos_incompatibility(writer: Qos, reader: Qos) -> str:
    """Return why ROS 2 does not match this writer with this reader; empty if it does."""
    if reader.reliable and not writer.reliable:
        return "a reliable reader hears nothing from a best-effort writer"
    if reader.latched and not writer.latched:
        return "a latched reader hears nothing from a volatile writer"
    return ""


def reading_qos(kind: MsgType) -> Qos:
    """Return the quality of a subscription: texts are said once, measurements again and again."""
    return LATCHED if kind is MsgType.TEXT else SENSOR


class Publisher(Protocol):
    """The publisher of one topic."""

    def send(self, reading: Reading) -> None:
        """Publish a reading.

        If the message has a header, the header holds the wall-clock time that corresponds to
        ``stamp_s``. A ``stamp_s`` of 0 means the present time.
        """
        ...


class GoalCounts(NamedTuple):
    """Numbers of an action's goals: those sent, and those refused so far."""

    sent: int
    refused: int


@runtime_checkable
class AnsweredPublisher(Protocol):
    """A publisher of an action's goals, whose receiver answers."""

    def count_goals(self) -> GoalCounts:
        """Return the numbers of goals. Thread-safe."""
        ...


class Transport(Protocol):
    """Topics and services. Callbacks run in the transport's own thread and must be short."""

    def subscribe(self, topic: str, kind: MsgType, put: Put, qos: Qos = SENSOR) -> None:
        """Pass every message of a topic to ``put``, stamped with its time of arrival."""
        ...

    def create_publisher(self, topic: str, kind: MsgType, qos: Qos = COMMAND) -> Publisher:
        """Return a new publisher on a topic."""
        ...

    def create_goal_publisher(self, action: str) -> Publisher:
        """Return a publisher of goals of an action of type ``FOLLOW``.

        Its readings have the fields of ``MsgType.TRAJECTORY``. Each goal replaces the previous one,
        and the publisher does not wait for results. ``problems`` reports refused goals and an
        action without a server.

        Raises:
            ConfigError: This transport has no services, with the reason.
        """
        ...

    def create_goal_server(self, action: str, put: Put) -> None:
        """Accept every goal of an action of type ``FOLLOW`` and pass its trajectory to ``put``.

        Raises:
            ConfigError: This transport has no services, with the reason.
        """
        ...

    def create_service(self, name: str, call: Call) -> None:
        """Serve a service of type Trigger; ``~/`` stands for the node's own name.

        A call may block. It delays neither other calls nor readings.

        Raises:
            ConfigError: This transport has no services, with the reason.
        """
        ...

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """Return the other nodes' publishers and subscribers of a topic that are discovered so far.

        Args:
            topic: Name of the topic or action.
            action: Whether ``topic`` names an action. Its clients count as publishers, its servers
                as subscribers.
        """
        ...

    def call_service(self, name: str, patience_s: float = 2.0) -> ServiceResponse:
        """Call a service of type Trigger and wait for the response.

        Raises:
            ConfigError: This transport has no services, with the reason.
            RoboRlError: There is no response in time.
        """
        ...

    def problems(self) -> list[str]:
        """Return the problems that keep messages from arriving: incompatible QoS, bad messages."""
        ...

    def close(self) -> None:
        """Close all endpoints and leave the network."""
        ...


@runtime_checkable
class LifecycleTransport(Protocol):
    """A transport whose nodes have a ROS 2 lifecycle that other nodes can read and change."""

    def attach_lifecycle(self, ask: Ask, state: Callable[[], State]) -> None:
        """Forward lifecycle requests from outside to ``ask`` and publish the node's own changes."""
        ...


def full_name(name: str, node: str, namespace: str = "/") -> str:
    """Return a name with ``~/`` resolved: ``~/reset`` of the node ``arm`` is ``/arm/reset``."""
    if not name.startswith("~/"):
        return name
    return f"{namespace.rstrip('/')}/{node}/{name[2:]}"


def no_service_message(name: str, patience_s: float) -> RoboRlError:
    """Return the error for a service that does not respond."""
    return RoboRlError(
        f"service '{name}': no answer within {patience_s:g} s",
        hint="is its node running, on this domain, with services?",
    )


def service_response(call: Call) -> ServiceResponse:
    """Return the response of a service call; an exception becomes an unsuccessful response."""
    try:
        return call()
    except Exception as error:  # the caller gets the error, the server keeps running
        return ServiceResponse(False, f"{type(error).__name__}: {error}")
