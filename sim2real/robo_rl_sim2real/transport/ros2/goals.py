"""Client and server of FollowJointTrajectory goals with rclpy.

Only imported with rclpy. Goals are sent with the action's send-goal service alone. rclpy's action
client would also receive all status and feedback messages, and a server sends more of them with
every goal.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import rclpy.serialization
from rclpy.action import ActionServer, CancelResponse, GoalResponse

from robo_rl_sim2real.messages.kinds import MsgType, to_message, to_reading
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.trajectory import FOLLOW
from robo_rl_sim2real.transport.base import NEWEST, SEND_GOAL, Endpoint, Put
from robo_rl_sim2real.transport.publishers import GoalPublisher
from robo_rl_sim2real.transport.ros2.messages import DIALECT, interface

_UUID = "unique_identifier_msgs/msg/UUID"
_RESULT_S = 1


class GoalClient(GoalPublisher[Any]):
    """A publisher of goals; without a server, goals are dropped.

    Args:
        node: rclpy node.
        action: Name of the action.
        group: Callback group of the responses.
    """

    def __init__(self, node: Any, action: str, group: Any) -> None:
        self._node, self._service = node, interface(FOLLOW).Impl.SendGoalService
        name = f"{action}{SEND_GOAL}"
        self._client = node.create_client(self._service, name, callback_group=group)
        super().__init__(action, self._client)
        pack = rclpy.serialization  # packing an empty request loads its dependencies
        pack.serialize_message(self._service.Request())

    def destroy(self) -> None:
        """Free the client, after all executors have stopped."""
        self._node.destroy_client(self._client)

    def _publish(self, end: Any, reading: Reading) -> None:
        if not end.service_is_ready():
            return
        trajectory = to_message(MsgType.TRAJECTORY, reading, DIALECT)
        request = self._service.Request(
            goal_id=interface(_UUID)(uuid=list(secrets.token_bytes(16))),
            goal=interface(FOLLOW).Goal(trajectory=trajectory),
        )
        end.call_async(request).add_done_callback(self._answered)
        self._sent += 1

    def _has_taker(self, end: Any) -> bool:
        return end.service_is_ready()

    def _answered(self, future: Any) -> None:
        found = future.result()  # one at a time: responses share a callback group
        self._refused += found is not None and not found.accepted


def serve_goals(
    node: Any, action: str, group: Any, put: Put, note: Callable[[str, str], None]
) -> Any:
    """Return an action server that accepts every goal that ``put`` can process, at once."""

    def taken(goal: Any) -> Any:
        try:
            put(to_reading(MsgType.TRAJECTORY, goal.trajectory, time.monotonic()))
        except Exception as error:  # the client and ``problems`` both report the error
            note(action, f"{type(error).__name__}: {error}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def done(handle: Any) -> Any:
        handle.succeed()
        return interface(FOLLOW).Result()

    return ActionServer(
        node,
        interface(FOLLOW),
        action,
        done,
        callback_group=group,
        goal_callback=taken,
        cancel_callback=lambda _: CancelResponse.REJECT,
        result_timeout=_RESULT_S,
    )


def action_endpoints(node: Any, action: str, ours: str) -> list[Endpoint]:
    """Return the other nodes' clients and servers of an action.

    Another node of this node's name counts as one that has what this node has.
    """
    found, name, is_own = list[Endpoint](), f"{action}{SEND_GOAL}", True
    for other, namespace in node.get_node_names_and_namespaces():
        whole = f"{namespace.rstrip('/')}/{other}"
        if whole == ours and is_own:
            is_own = False
            continue
        looks = (
            (True, node.get_client_names_and_types_by_node),
            (False, node.get_service_names_and_types_by_node),
        )
        for writes, look in looks:
            try:
                services = dict(look(other, namespace))
            except RuntimeError:  # from rcl: the node has left meanwhile
                services = {}
            if name in services:
                found.append(Endpoint(whole, FOLLOW, writes, NEWEST))
    return found
