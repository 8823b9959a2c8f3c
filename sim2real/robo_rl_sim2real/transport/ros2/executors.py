"""Executors of a node: one thread for readings, several threads for blocking callbacks.

Only imported with rclpy. rclpy's multi-threaded executor hands every message to another thread,
which takes several times as long as receiving it. Its single-threaded executor is blocked by a
waiting callback. One node therefore has both, and its callback groups assign each callback to one
of them.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor

_THREADS = 8
"""More than there are callbacks that wait for the control loop, so that ``~/stop`` never waits."""


class SubscriptionExecutor(SingleThreadedExecutor):
    """Runs the callbacks of one group.

    Args:
        node: The node; it belongs to the other executor.
        group: Callback group of its subscriptions.
        context: Context of the node.
    """

    def __init__(self, node: Any, group: Any, context: Any) -> None:
        super().__init__(context=context)
        self._node, self._group = node, group

    def get_nodes(self) -> list[Any]:
        """Return the node."""
        return [self._node]

    def can_execute(self, entity: Any) -> bool:
        """Return whether the entity is in the group and ready."""
        return entity.callback_group is self._group and super().can_execute(entity)


class ServiceExecutor(MultiThreadedExecutor):
    """Runs the callbacks outside one group: services, ROS 2's lifecycle, parameters.

    Args:
        group: Callback group of the subscriptions.
        context: Context of the node.
    """

    def __init__(self, group: Any, context: Any) -> None:
        super().__init__(_THREADS, context=context)
        self._group = group

    def can_execute(self, entity: Any) -> bool:
        """Return whether the entity is outside the group and ready."""
        return entity.callback_group is not self._group and super().can_execute(entity)
