"""ROS 2 with rclpy: a managed node on the middleware of the machine's ROS 2.

rclpy is part of ROS 2 and is imported when a transport is made. Each node has a context of its own,
so that several can live in one process.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.core.lifecycle_states import State
from robo_rl_sim2real.messages.kinds import MsgType, to_message, to_reading
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.transport.base import (
    COMMAND,
    POLICY,
    SENSOR,
    Ask,
    Call,
    Endpoint,
    Publisher,
    Put,
    Qos,
    ServiceResponse,
    no_service_message,
    service_response,
)
from robo_rl_sim2real.transport.publishers import ClosablePublisher
from robo_rl_sim2real.transport.ros2.installation import configure_discovery, rclpy_modules
from robo_rl_sim2real.transport.ros2.messages import DIALECT, interface

_TRIGGER = "std_srvs/srv/Trigger"
_WAIT_S = 0.1


class Ros2:
    """A ROS 2 node; see ``Transport`` and ``LifecycleTransport``.

    Args:
        cfg: See Config.
        node: Name of the node.

    Raises:
        DeviceError: rclpy cannot be imported.
    """

    class Config(ConfigModel):
        """Domain and reach of the node.

        Args:
            domain: ROS_DOMAIN_ID.
            network: Whether the node communicates with other machines; then ROS 2's own environment
                applies (ROS_AUTOMATIC_DISCOVERY_RANGE and others).
            namespace: Namespace of the node.
            args: ROS 2's arguments, such as ``[--ros-args, -r, __node:=arm]``, by which a launch
                file names and remaps.
        """

        domain: int = Field(default=0, ge=0, le=232)
        network: bool = False
        namespace: str = "/"
        args: tuple[str, ...] = ()

    def __init__(self, cfg: Config, node: str) -> None:
        self.cfg, self._ros = cfg, rclpy_modules()
        self._context = self._ros.context.Context()
        with configure_discovery(self._ros, network=cfg.network):
            args = [_beside(arg, node) for arg in cfg.args]
            self._context.init(args=args, domain_id=cfg.domain)
        # These imports need rclpy.
        from robo_rl_sim2real.transport.ros2.executors import ServiceExecutor, SubscriptionExecutor
        from robo_rl_sim2real.transport.ros2.lifecycle_node import PolicyNode

        self.node, self._heard = PolicyNode(node, self._context, cfg.namespace), self._group()
        self._hearing = SubscriptionExecutor(self.node, self._heard, self._context)
        self._answering = ServiceExecutor(self._heard, self._context)
        self._answering.add_node(self.node)
        self._bad: dict[str, str] = {}
        self._made = defaultdict[str, Counter[bool]](Counter)
        """Topic → number of own publishers (True) and subscribers (False)."""
        self._outs: list[_TopicPublisher] = []
        self._pursuits: list[Any] = []
        self._servers: list[Any] = []
        self._open, self._lock = True, threading.Lock()
        self._threads = [
            threading.Thread(target=self._spin, args=(executor,), name=f"ros2 {node}", daemon=True)
            for executor in (self._hearing, self._answering)
        ]
        for thread in self._threads:
            thread.start()

    def subscribe(self, topic: str, kind: MsgType, put: Put, qos: Qos = SENSOR) -> None:
        """See ``Transport``."""

        def take(message: Any) -> None:
            now_s = time.monotonic()
            try:
                put(to_reading(kind, message, now_s))
            except Exception as error:  # one bad message must not stop reception
                self._note(topic, f"{type(error).__name__}: {error}")

        events = self._events.SubscriptionEventCallbacks(incompatible_qos=self._mismatch(topic))
        self.node.create_subscription(
            self._warm(kind),
            topic,
            take,
            self._profile(qos),
            callback_group=self._heard,
            event_callbacks=events,
        )
        self._made[self.node.resolve_topic_name(topic)][False] += 1
        self._hearing.wake()

    def create_publisher(self, topic: str, kind: MsgType, qos: Qos = COMMAND) -> Publisher:
        """See ``Transport``."""
        events = self._events.PublisherEventCallbacks(incompatible_qos=self._mismatch(topic))
        publisher = self.node.create_plain_publisher(
            self._warm(kind), topic, self._profile(qos), event_callbacks=events
        )
        self._made[self.node.resolve_topic_name(topic)][True] += 1
        self._outs.append(_TopicPublisher(publisher, kind))
        return self._outs[-1]

    def create_goal_publisher(self, action: str) -> Publisher:
        """See ``Transport``."""
        from robo_rl_sim2real.transport.ros2.goals import GoalClient

        self._pursuits.append(found := GoalClient(self.node, action, self._group()))
        return found

    def create_goal_server(self, action: str, put: Put) -> None:
        """See ``Transport``."""
        from robo_rl_sim2real.transport.ros2.goals import serve_goals

        self._servers.append(serve_goals(self.node, action, self._group(), put, self._note))

    def create_service(self, name: str, call: Call) -> None:
        """See ``Transport``; each service has its own callback group, so calls run in parallel."""

        def handle(request: Any, response: Any) -> Any:
            del request
            response.success, response.message = service_response(call)
            return response

        self.node.create_service(interface(_TRIGGER), name, handle, callback_group=self._group())

    def call_service(self, name: str, patience_s: float = 2.0) -> ServiceResponse:
        """See ``Transport``.

        Raises:
            RoboRlError: There is no response in time.
        """
        trigger, until_s = interface(_TRIGGER), time.monotonic() + patience_s
        client = self.node.create_client(trigger, name, callback_group=self._group())
        try:
            if not client.wait_for_service(timeout_sec=patience_s):
                raise no_service_message(name, patience_s)
            done = threading.Event()
            future = client.call_async(trigger.Request())
            future.add_done_callback(lambda _: done.set())
            if not done.wait(max(until_s - time.monotonic(), 0.0)):
                raise no_service_message(name, patience_s)
            found: Any = future.result()
            return ServiceResponse(found.success, found.message)
        finally:
            self.node.destroy_client(client)

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        """See ``Transport``."""
        node, name = self.node, self.node.resolve_topic_name(topic)
        if action:
            from robo_rl_sim2real.transport.ros2.goals import action_endpoints as ends_of

            return ends_of(node, name, node.get_fully_qualified_name())
        found = [(True, info) for info in node.get_publishers_info_by_topic(name)]
        found += [(False, info) for info in node.get_subscriptions_info_by_topic(name)]
        ours, own = node.get_fully_qualified_name(), Counter(self._made[name])
        ends = list[Endpoint]()
        for writes, info in found:
            if _name(info) == ours and own[writes] > 0:
                own[writes] -= 1  # more of that name are of another node
                continue
            ends.append(Endpoint(_name(info), info.topic_type, writes, self._qos(info)))
        return ends

    def attach_lifecycle(self, ask: Ask, state: Callable[[], State]) -> None:
        """See ``LifecycleTransport``."""
        self.node.attach_lifecycle(ask, state)

    def problems(self) -> list[str]:
        """See ``Transport``."""
        alive = not self._open or all(thread.is_alive() for thread in self._threads)
        deaf = [] if alive else ["a listening thread died"]
        pursuits = [f"{each.action}: {why}" for each in self._pursuits if (why := each.status())]
        with self._lock:
            return deaf + pursuits + [f"{topic}: {what}" for topic, what in self._bad.items()]

    def close(self) -> None:
        """See ``Transport``."""
        if not self._open:
            return
        self._open = False
        for out in (*self._outs, *self._pursuits):
            out.close()
        for thread in self._threads:
            thread.join(timeout=2.0)
        for executor in (self._hearing, self._answering):
            executor.shutdown(timeout_sec=2.0)
        for end in (*self._servers, *self._pursuits):
            end.destroy()
        self.node.destroy_node()
        self._context.try_shutdown()

    @property
    def _events(self) -> Any:
        """The rclpy module of QoS events, which has another name in Humble."""
        return getattr(self._ros, "event_handler", None) or self._ros.qos_event

    def _spin(self, executor: Any) -> None:
        while self._open:
            try:
                executor.spin_once(timeout_sec=_WAIT_S)
            except Exception as error:  # for example, a client that leaves during its call
                if self._open:
                    self._note("executor", f"{type(error).__name__}: {error}")

    def _group(self) -> Any:
        return self._ros.callback_groups.MutuallyExclusiveCallbackGroup()

    def _note(self, what: str, problem: str) -> None:
        with self._lock:
            self._bad[what] = problem

    def _mismatch(self, topic: str) -> Callable[[Any], None]:
        def told(info: Any) -> None:
            number, policy = info.total_count, info.last_policy_kind
            self._note(topic, f"{number} endpoints whose QoS do not match (policy {policy})")

        return told

    def _warm(self, kind: MsgType) -> Any:
        """Return a message type's class; packing and reading an empty one loads dependencies."""
        cls, pack = interface(kind.value), self._ros.serialization
        pack.deserialize_message(pack.serialize_message(cls()), cls)
        return cls

    def _qos(self, info: Any) -> Qos:
        ros, said = self._ros.qos, info.qos_profile
        reliable = said.reliability == ros.ReliabilityPolicy.RELIABLE
        return Qos(reliable, said.durability == ros.DurabilityPolicy.TRANSIENT_LOCAL)

    def _profile(self, qos: Qos) -> Any:
        ros = self._ros.qos
        reliable, latched = ros.ReliabilityPolicy, ros.DurabilityPolicy
        return ros.QoSProfile(
            history=ros.HistoryPolicy.KEEP_LAST,
            depth=qos.depth,
            reliability=reliable.RELIABLE if qos.reliable else reliable.BEST_EFFORT,
            durability=latched.TRANSIENT_LOCAL if qos.latched else latched.VOLATILE,
        )


def _beside(arg: str, node: str) -> str:
    """Return the argument with the policy's node name extended for a node beside it."""
    beside = node.removeprefix(f"{POLICY}_")
    return f"{arg}_{beside}" if arg.startswith("__node:=") and beside != node else arg


def _name(info: Any) -> str:
    return f"{info.node_namespace.rstrip('/')}/{info.node_name}"


class _TopicPublisher(ClosablePublisher[Any]):
    """The publisher of a topic."""

    def __init__(self, publisher: Any, kind: MsgType) -> None:
        super().__init__(publisher)
        self._kind = kind

    def _publish(self, end: Any, reading: Reading) -> None:
        end.publish(to_message(self._kind, reading, DIALECT))
