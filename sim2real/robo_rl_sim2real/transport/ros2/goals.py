"""Goals of FollowJointTrajectory by rclpy.

Only imported where rclpy is. Goals are sent by the action's service alone: rclpy's own action
client would also hear every status and feedback, of which a server has more to say with every goal.
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
    """A publisher of goals; where nobody takes them, none is kept for later.

    Args:
        node: rclpy's.
        action: Its name.
        group: Callback group of the answers.
    """

    def __init__(self, node: Any, action: str, group: Any) -> None:
        self._node, self._service = node, interface(FOLLOW).Impl.SendGoalService
        name = f"{action}{SEND_GOAL}"
        self._client = node.create_client(self._service, name, callback_group=group)
        super().__init__(action, self._client)
        pack = rclpy.serialization  # packing one that is empty loads all that it needs
        pack.serialize_message(self._service.Request())

    def destroy(self) -> None:
        """Free it, once no executor runs any more."""
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
        found = future.result()  # answers come one by one: they share a callback group
        self._refused += found is not None and not found.accepted


def serve_goals(
    node: Any, action: str, group: Any, put: Put, note: Callable[[str, str], None]
) -> Any:
    """An action server that takes every goal that ``put`` can make something of, at once."""

    def taken(goal: Any) -> Any:
        try:
            put(to_reading(MsgType.TRAJECTORY, goal.trajectory, time.monotonic()))
        except Exception as error:  # who asked is told, and so is who looks for problems
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
    """Who else pursues and obeys an action."""
    found, name = list[Endpoint](), f"{action}{SEND_GOAL}"
    for other, namespace in node.get_node_names_and_namespaces():
        whole = f"{namespace.rstrip('/')}/{other}"
        looks = (
            (True, node.get_client_names_and_types_by_node),
            (False, node.get_service_names_and_types_by_node),
        )
        for writes, look in looks if whole != ours else ():
            try:
                services = dict(look(other, namespace))
            except RuntimeError:  # of rcl: the node has left in between
                services = {}
            if name in services:
                found.append(Endpoint(whole, FOLLOW, writes, NEWEST))
    return found
