"""Goals of FollowJointTrajectory by rclpy's own actions.

Only imported where rclpy is.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionClient, ActionServer, CancelResponse
from rclpy.action.graph import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)

from robo_rl.errors import RoboRlError
from robo_rl_sim2real.messages import Kind, to_message, to_reading
from robo_rl_sim2real.readings import Reading
from robo_rl_sim2real.trajectory_messages import FOLLOW
from robo_rl_sim2real.transport.base import NEWEST, Endpoint, Put
from robo_rl_sim2real.transport.ros2_messages import DIALECT, interface

Note = Callable[[str, str], None]
"""Takes what is wrong, and with what."""


class Pursuit:
    """A publisher of goals.

    Args:
        node: rclpy's.
        action: Its name.
        group: Callback group.
        note: Is told of goals that were refused, or that nobody was there for.
    """

    def __init__(self, node: Any, action: str, group: Any, note: Note) -> None:
        self.action, self._note = action, note
        self._client = ActionClient(node, interface(FOLLOW), action, callback_group=group)
        self._lock, self._open = threading.Lock(), True
        self._refused = 0

    def send(self, reading: Reading) -> None:
        """See ``Publisher``; where nobody takes goals, none is kept for later.

        Raises:
            RoboRlError: The transport was closed.
        """
        if not self._open:
            raise RoboRlError("the transport was closed")
        if not self._client.server_is_ready():
            self._note(self.action, "nobody is there to take goals")
            return
        goal = interface(FOLLOW).Goal(trajectory=to_message(Kind.TRAJECTORY, reading, DIALECT))
        self._client.send_goal_async(goal).add_done_callback(self._answered)

    def close(self) -> None:
        """Send no more."""
        self._open = False
        self._client.destroy()

    def _answered(self, future: Any) -> None:
        handle = future.result()
        if handle is not None and handle.accepted:
            return
        with self._lock:
            self._refused += 1
            refused = self._refused
        self._note(self.action, f"{refused} goals were refused")


def obey(node: Any, action: str, group: Any, put: Put) -> Any:
    """An action server that takes every goal, and is done with it at once."""

    def execute(handle: Any) -> Any:
        put(to_reading(Kind.TRAJECTORY, handle.request.trajectory, time.monotonic()))
        handle.succeed()
        return interface(FOLLOW).Result()

    return ActionServer(
        node,
        interface(FOLLOW),
        action,
        execute,
        callback_group=group,
        cancel_callback=lambda _: CancelResponse.REJECT,
    )


def ends(node: Any, action: str, ours: str) -> list[Endpoint]:
    """Who else pursues and obeys an action."""
    found = list[Endpoint]()
    for name, namespace in node.get_node_names_and_namespaces():
        whole = f"{namespace.rstrip('/')}/{name}"
        for writes, look in (
            (True, get_action_client_names_and_types_by_node),
            (False, get_action_server_names_and_types_by_node),
        ):
            actions = dict(look(node, name, namespace)) if whole != ours else {}
            found += [Endpoint(whole, type_, writes, NEWEST) for type_ in actions.get(action, ())]
    return found
