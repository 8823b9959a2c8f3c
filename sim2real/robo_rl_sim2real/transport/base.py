"""What the node asks of a transport, whichever it is.

Times are seconds of the machine's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from robo_rl.core.errors import RoboRlError
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

POLICY = "robo_rl"
"""The policy's node, unless it is given another name; nodes beside it are ``robo_rl_…``."""

SEND_GOAL = "/_action/send_goal"
"""What an action's name is followed by in that of the service that takes its goals."""

NO_TAKER = "nobody is there to take goals"
"""A problem of who pursues an action."""

Put = Callable[[Reading], None]
Call = Callable[[], "ServiceResponse"]
Ask = Callable[[str], "ServiceResponse"]
"""A request by its name; waits until it is granted or refused."""


class ServiceResponse(NamedTuple):
    """A service's answer: whether it was done, and what to say (std_srvs/srv/Trigger)."""

    success: bool
    message: str


class Qos(NamedTuple):
    """Quality of service.

    Args:
        reliable: Whether what was lost is sent again. A reliable reader hears nothing from a
            writer that is not.
        latched: Whether who comes later hears the last one.
        depth: How many are kept.
    """

    reliable: bool = True
    latched: bool = False
    depth: int = 1


SENSOR = Qos(reliable=False)
"""For readings: only the newest counts, and both kinds of writers are heard."""

COMMAND = Qos(depth=10)
"""Reliable, one after the other: requests, the emergency stop."""

NEWEST = Qos()
"""Reliable, the newest only: commands."""

LATCHED = Qos(latched=True)
"""Reliable, and who comes later hears the last one: states, descriptions."""


class Endpoint(NamedTuple):
    """One end of a topic, of another node.

    Args:
        node: Whose it is, with its namespace; empty where that is not known.
        type: Interface, such as ``sensor_msgs/msg/JointState``.
        writes: Whether it publishes rather than hears.
        qos: Its quality of service.
    """

    node: str
    type: str
    writes: bool
    qos: Qos


def qos_incompatibility(writer: Qos, reader: Qos) -> str:
    """Why a reader hears nothing from a writer, as ROS 2 has it; empty if it does."""
    if reader.reliable and not writer.reliable:
        return "a reliable reader hears nothing from a best-effort writer"
    if reader.latched and not writer.latched:
        return "a latched reader hears nothing from a volatile writer"
    return ""


class Publisher(Protocol):
    """One topic's way out."""

    def send(self, reading: Reading) -> None:
        """Publish; the header, where there is one, says by the wall clock when ``stamp_s`` was.

        0 is now.
        """
        ...


class Transport(Protocol):
    """Topics and services. Callbacks run in the transport's own thread and must be short."""

    def subscribe(self, topic: str, kind: MsgType, put: Put, qos: Qos = SENSOR) -> None:
        """Hand every message of a topic to ``put``, stamped with when it arrived."""
        ...

    def create_publisher(self, topic: str, kind: MsgType, qos: Qos = COMMAND) -> Publisher:
        """Begin to publish on a topic."""
        ...

    def create_goal_publisher(self, action: str) -> Publisher:
        """Begin to send goals of an action, ``FOLLOW``: readings as of ``Kind.TRAJECTORY``.

        Each takes the place of the one before, and none is waited for. That goals were refused, or
        that nobody is there to take any, is among the ``problems``.

        Raises:
            ConfigError: This transport has no services, with the reason.
        """
        ...

    def create_goal_server(self, action: str, put: Put) -> None:
        """Accept every goal of an action, ``FOLLOW``, and hand its trajectory to ``put``.

        Raises:
            ConfigError: This transport has no services, with the reason.
        """
        ...

    def create_service(self, name: str, call: Call) -> None:
        """Answer a service of type Trigger; ``~/`` stands for the node's own name.

        Each may wait for something: none keeps another, or a reading, from coming.

        Raises:
            ConfigError: This transport has no services, with the reason.
        """
        ...

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """Who else publishes and hears on a topic, as far as it was discovered up to now.

        Of an action, by its name: who else pursues and obeys it.
        """
        ...

    def call_service(self, name: str, patience_s: float = 2.0) -> ServiceResponse:
        """Ask a service of type Trigger, and wait for the answer.

        Raises:
            ConfigError: This transport has no services, with the reason.
            RoboRlError: Nobody answered in time.
        """
        ...

    def problems(self) -> list[str]:
        """What keeps messages from arriving: endpoints whose QoS do not match, bad messages."""
        ...

    def close(self) -> None:
        """Leave."""
        ...


@runtime_checkable
class LifecycleTransport(Protocol):
    """A transport whose nodes have a lifecycle of their own, that others look at and change."""

    def attach_lifecycle(self, ask: Ask, state: Callable[[], State]) -> None:
        """Have changes from outside asked of the node, and its own changes shown."""
        ...


def full_name(name: str, node: str, namespace: str = "/") -> str:
    """A name with its ``~/`` resolved: ``~/reset`` of the node ``arm`` is ``/arm/reset``."""
    if not name.startswith("~/"):
        return name
    return f"{namespace.rstrip('/')}/{node}/{name[2:]}"


def no_service_message(name: str, patience_s: float) -> RoboRlError:
    """The one line for a service that does not answer."""
    return RoboRlError(
        f"service '{name}': no answer within {patience_s:g} s",
        hint="is its node running, on this domain, with services?",
    )


def service_response(call: Call) -> ServiceResponse:
    """What a service answers; an error in it is an answer too."""
    try:
        return call()
    except Exception as error:  # who asks is told; whatever broke must not take the server with it
        return ServiceResponse(False, f"{type(error).__name__}: {error}")
